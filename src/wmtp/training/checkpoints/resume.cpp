#include "wmtp/training/checkpoints/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "wmtp/commit/names.h"
#include "wmtp/commit/trainer_state.h"
#include "wmtp/core/error.h"
#include "wmtp/training/base_fingerprint.h"
#include "wmtp/training/checkpoints/read_elements.h"

namespace wmtp::training {

std::optional<FoundState> find_state(const config::Config& config, const std::string& model,
                                     bool allow_fresh_start, const std::string& attempt,
                                     comm::ProcessGroupSession& session) {
  using Kind = config::ResumeFrom::Kind;
  if (config.checkpoint.resume.kind == Kind::never) return std::nullopt;
  storage::LocalFileSystem files;
  StoreVote vote(session.store(), "choose");
  std::filesystem::path save_dir = config.checkpoint.save_dir;
  commit::ChooseRequest request{files, vote, save_dir, model};
  if (config.checkpoint.resume.kind == Kind::path) {
    const auto path = config.checkpoint.resume.path.lexically_normal();
    const auto named = path.has_filename() ? path : path.parent_path();
    request.save_dir = named.parent_path().empty() ? "." : named.parent_path();
    request.only = named.filename().string();
  }
  request.verify = config.checkpoint.verify == config::VerifyLevel::full ? commit::Verify::full
                                                                         : commit::Verify::read;
  request.rank = session.rank();
  request.world_size = session.world();
  request.attempt = attempt;
  request.allow_fresh_start = allow_fresh_start;
  const auto choice = commit::choose_checkpoint(request);
  if (!choice) return std::nullopt;
  static storage::LocalFileSystem local;  // stateless; outlives every reader
  FoundState found;
  found.name = choice->name;
  found.reader = std::make_unique<commit::CheckpointReader>(local, request.save_dir / choice->name);
  found.state = saved_state_from_json(
      commit::parse_trainer_state(found.reader->text(commit::kTrainerStateFile), choice->name));
  if (found.state.train.step != choice->step)
    throw Error(
        ErrorKind::checkpoint, "checkpoint",
        fmt::format("{}: trainer_state.json is of step {}", choice->name, found.state.train.step));
  return found;
}

config::ResolvedConfig load_saved_config(const std::string& saved_yaml,
                                         const config::Environment& environment) {
  config::LoadRequest request;
  request.file = "config.yaml of the checkpoint";
  request.text = saved_yaml;
  request.defaults = "none";
  request.env = environment;
  request.check_paths = false;
  request.check_available = false;
  return config::load_config(request);
}

std::string_view base_key(const config::Config& config) {
  const bool critic = config.experiment.stage == config::Stage::critic;
  return critic && config.models.value_model.path ? "models.value_model.path"
                                                  : "models.policy.path";
}

namespace {

bool is_drawn(const config::Config& config) {
  return base_key(config) == "models.policy.path" &&
         config.models.policy.init == config::WeightInit::random;
}

}  // namespace

bool base_by_content(const commit::Manifest& saved, const config::Config& config) {
  return is_fingerprint(saved.fingerprints.base) && !is_drawn(config);
}

void require_base(const commit::Manifest& saved, const std::string& fingerprint,
                  const config::Config& config) {
  const std::string& before = saved.fingerprints.base;
  if (before == fingerprint || !is_fingerprint(before)) return;
  const std::string_view key = base_key(config);
  const auto& allowed = config.checkpoint.allow_config_change;
  const bool left_out = saved.kind == commit::CheckpointKind::lora;
  const bool may_differ =
      is_drawn(config) || std::find(allowed.begin(), allowed.end(), key) != allowed.end();
  if (!left_out && may_differ) return;
  throw Error(
      ErrorKind::config, "checkpoint",
      fmt::format("{}: the checkpoint was trained upon a base with the fingerprint {}, {} "
                  "names one with {}",
                  commit::checkpoint_name(saved.model, saved.step), before, key, fingerprint),
      left_out ? fmt::format("it holds adapters only: let {} name that base, wherever it "
                             "is now, or start over with --resume never",
                             key)
               : fmt::format("let {} name that base, wherever it is now, or name the key "
                             "in checkpoint.allow_config_change",
                             key));
}

std::vector<std::string> compare_config(const config::ResolvedConfig& saved,
                                        const config::ResolvedConfig& now, bool free_base) {
  std::map<std::string, const config::ResolvedKey*> before;
  for (const config::ResolvedKey& key : saved.keys) before[key.key] = &key;
  const auto& allowed = now.config.checkpoint.allow_config_change;
  std::vector<std::string> refused, changed;
  for (const config::ResolvedKey& key : now.keys) {
    const auto old = before.find(key.key);
    if (key.resume == config::ResumeClass::host || old == before.end() ||
        old->second->value == key.value)
      continue;
    const std::string line =
        fmt::format("{}: {} -> {}", key.key, old->second->value.dump(), key.value.dump());
    const bool free = key.resume == config::ResumeClass::free ||
                      (free_base && key.key == base_key(now.config)) ||
                      std::find(allowed.begin(), allowed.end(), key.key) != allowed.end();
    (free ? changed : refused).push_back(line);
  }
  if (!refused.empty())
    throw Error(
        ErrorKind::config, "checkpoint",
        fmt::format("the checkpoint was saved under another configuration: {}",
                    fmt::join(refused, "; ")),
        "go back to those values, name the keys in checkpoint.allow_config_change, or start "
        "over with --resume never");
  return changed;
}

void restore(FoundState& found, TrainableModel& model, weighting::EmaTracker* ema,
             const parallel::Fill& base) {
  commit::CheckpointReader& reader = *found.reader;
  const bool lora_only = reader.manifest().kind == commit::CheckpointKind::lora;
  model.runtime().fill([&](const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
    if (lora_only && !reader.find(param.name)) return base(param, begin, out);
    read_elements(reader, param.name, begin, out);
  });
  load_moments(model, [&reader](const std::string& name, std::int64_t begin, const Tensor& out) {
    read_elements(reader, name, begin, out);
  });
  model.optimizer().applied_steps().fill_(found.state.applied_updates);
  if (model.loss_scale() && found.state.loss_scale)
    model.loss_scale()->restore(*found.state.loss_scale);
  if (ema && found.state.ema) ema->restore(*found.state.ema);
}

}  // namespace wmtp::training
