#include "wmtp/run/checkpoints/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "wmtp/checkpoint/format/folder.h"
#include "wmtp/checkpoint/format/names.h"
#include "wmtp/checkpoint/format/trainer_state.h"
#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/models/base_fingerprint.h"
#include "wmtp/models/read_elements.h"
#include "wmtp/models/remote/file_systems.h"
#include "wmtp/models/run_paths.h"
#include "wmtp/models/saved_config.h"
#include "wmtp/run/checkpoints/fetch_newest.h"
#include "wmtp/weights/safetensors_tensor.h"

namespace wmtp::run {

namespace {

using ResumeKind = config::ResumeFrom::Kind;

checkpoint::ChooseRequest choose_request(const FindRequest& find, storage::FileSystem& files,
                                         checkpoint::KvExchange& vote,
                                         const comm::ProcessGroupSession& session) {
  const config::Checkpoint& config = find.config.checkpoint;
  checkpoint::ChooseRequest request{files, vote, config.save_dir, find.model};
  request.verify = config.verify == config::VerifyLevel::full ? checkpoint::Verify::full
                                                              : checkpoint::Verify::read;
  request.rank = session.rank();
  request.world_size = session.world();
  request.attempt = find.start_id;
  request.allow_fresh_start = find.allow_fresh_start;
  return request;
}

void look_for_path(checkpoint::ChooseRequest& request, const std::filesystem::path& given) {
  const auto named = models::checkpoint_to_resume(given, request.model);
  request.save_dir = named.parent_path().empty() ? "." : named.parent_path();
  request.only = named.filename().string();
}

// A run that begins before checkpoints of its own folder leaves them in the way of --resume auto.
void warn_of_later(const FindRequest& find, std::int64_t step) {
  const auto& save_dir = find.config.checkpoint.save_dir;
  const auto found =
      checkpoint::find_checkpoints(*models::files_of(save_dir), save_dir, find.model);
  if (!found.empty() && found.front().step > step)
    log::warn(
        "checkpoint",
        "{} holds checkpoints of later steps, up to {}: --resume auto would go on from there; "
        "move them away, or train in another folder",
        save_dir.string(), found.front().name);
}

FoundState read_state(const std::filesystem::path& folder, const checkpoint::Choice& choice) {
  FoundState found;
  found.name = choice.name;
  found.files = models::files_of(folder);
  found.reader = std::make_unique<checkpoint::CheckpointReader>(*found.files, folder / choice.name);
  found.state = saved_state_from_json(checkpoint::parse_trainer_state(
      found.reader->text(checkpoint::kTrainerStateFile), choice.name));
  if (found.state.train.step != choice.step)
    throw Error(
        ErrorKind::checkpoint, "checkpoint",
        fmt::format("{}: trainer_state.json is of step {}", choice.name, found.state.train.step));
  return found;
}

}  // namespace

std::optional<FoundState> find_state(const FindRequest& find, comm::ProcessGroupSession& session) {
  const config::ResumeFrom& resume = find.config.checkpoint.resume;
  if (resume.kind == ResumeKind::automatic && find.config.checkpoint.s3_upload && !find.offline)
    fetch_newest({find.config, find.model, find.start_id, find.allow_fresh_start}, session);
  const auto own_files = models::files_of(find.config.checkpoint.save_dir);
  const auto files = resume.kind == ResumeKind::path ? models::files_of(resume.path) : own_files;
  StoreExchange vote(session.store(), "choose");
  if (resume.kind != ResumeKind::automatic && session.launch().restart_count > 0) {
    checkpoint::ChooseRequest own = choose_request(find, *own_files, vote, session);
    own.of_run = find.run_id;
    own.attempt += "-own";
    if (const auto choice = checkpoint::choose_checkpoint(own))
      return read_state(own.save_dir, *choice);
  }
  checkpoint::ChooseRequest request = choose_request(find, *files, vote, session);
  std::optional<checkpoint::Choice> choice;
  if (resume.kind == ResumeKind::path) look_for_path(request, resume.path);
  if (resume.kind != ResumeKind::never) choice = checkpoint::choose_checkpoint(request);
  if (resume.kind != ResumeKind::automatic && session.rank() == 0)
    warn_of_later(find, choice ? choice->step : 0);
  if (!choice) return std::nullopt;
  FoundState found = read_state(request.save_dir, *choice);
  std::error_code ignored;
  found.in_save_dir =
      std::filesystem::equivalent(request.save_dir, find.config.checkpoint.save_dir, ignored);
  return found;
}

std::optional<FoundState> look_for_state(const FindRequest& find,
                                         const comm::ProcessGroupSession& session) {
  const config::ResumeFrom& resume = find.config.checkpoint.resume;
  if (resume.kind == ResumeKind::never) return std::nullopt;
  const bool named = resume.kind == ResumeKind::path;
  const auto files = models::files_of(named ? resume.path : find.config.checkpoint.save_dir);
  StoreExchange vote(session.store(), "look");
  checkpoint::ChooseRequest request = choose_request(find, *files, vote, session);
  request.world_size = 1;
  if (named) look_for_path(request, resume.path);
  // One that is named is never set aside: each is asked for by its name, the newest first.
  std::vector<std::string> names;
  if (named) names.push_back(request.only);
  if (!named)
    for (const auto& one : checkpoint::find_checkpoints(*files, request.save_dir, find.model))
      names.push_back(one.name);
  if (names.empty()) names.emplace_back();
  for (std::size_t i = 0; i < names.size(); ++i) try {
      request.only = names[i];
      request.attempt = fmt::format("{}-look-{}", find.start_id, i);
      const auto choice = checkpoint::choose_checkpoint(request);
      return choice ? std::optional(read_state(request.save_dir, *choice)) : std::nullopt;
    } catch (const Error& error) {
      const bool is_last = i + 1 == names.size() && !find.allow_fresh_start;
      if (named || is_last || error.kind() != ErrorKind::checkpoint) throw;
      log::warn("checkpoint", "{}; the run would set it aside", error.fact());
    }
  return std::nullopt;
}

std::vector<std::string> require_same_run(const FoundState& found,
                                          const config::ResolvedConfig& now,
                                          const std::string& base_fingerprint,
                                          const weights::Environment& environment) {
  const checkpoint::Manifest& saved = found.reader->manifest();
  std::vector<std::string> changes =
      compare_config(models::load_saved_config(found.reader->text("config.yaml"), environment), now,
                     base_by_content(saved, now.config));
  if (!base_fingerprint.empty()) require_base(saved, base_fingerprint, now.config);
  require_same_seed(found.state, now.config);
  return changes;
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

bool base_by_content(const checkpoint::Manifest& saved, const config::Config& config) {
  return models::is_fingerprint(saved.fingerprints.base) && !is_drawn(config);
}

void require_base(const checkpoint::Manifest& saved, const std::string& fingerprint,
                  const config::Config& config) {
  const std::string& before = saved.fingerprints.base;
  if (before == fingerprint || !models::is_fingerprint(before)) return;
  const std::string_view key = base_key(config);
  const auto& allowed = config.checkpoint.allow_config_change;
  const bool left_out = saved.kind == checkpoint::CheckpointKind::lora;
  const bool may_differ =
      is_drawn(config) || std::find(allowed.begin(), allowed.end(), key) != allowed.end();
  if (!left_out && may_differ) return;
  throw Error(
      ErrorKind::config, "checkpoint",
      fmt::format("{}: the checkpoint was trained upon a base with the fingerprint {}, {} "
                  "names one with {}",
                  checkpoint::checkpoint_name(saved.model, saved.step), before, key, fingerprint),
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

namespace {

// What the manifest and trainer_state.json both say.
void require_agreement(const FoundState& found) {
  const checkpoint::Fingerprints& named = found.reader->manifest().fingerprints;
  const data::Cursor& cursor = found.state.train.cursor;
  const auto compare = [&found](const std::string& in_manifest, const std::string& in_state,
                                std::string_view what) {
    if (in_manifest != in_state)
      throw Error(ErrorKind::checkpoint, "checkpoint",
                  fmt::format("{}: manifest.json and trainer_state.json name different {}",
                              found.name, what));
  };
  compare(named.data, cursor.data_fingerprint, "data");
  compare(named.tokenizer, cursor.tokenizer_fingerprint, "tokenizers");
}

StateReader reader_of(checkpoint::CheckpointReader& reader) {
  return {[&reader](const std::string& name) -> std::optional<DType> {
            const checkpoint::TensorRecord* record = reader.find(name);
            return record ? weights::to_dtype(record->dtype) : std::nullopt;
          },
          [&reader](const std::string& name, std::int64_t begin, const Tensor& out) {
            models::read_elements(reader, name, begin, out);
          }};
}

// Ranks differ in what they hold, not in how it is kept.
void tell_conversions(const Conversions& conversions, int rank) {
  if (rank != 0) return;
  for (const auto& [saved, kept] : conversions)
    log::info("checkpoint",
              "moments that were saved in {} are kept in {} from here: they were converted once",
              saved, kept);
}

}  // namespace

void require_same_seed(const SavedState& saved, const config::Config& config) {
  const auto& allowed = config.checkpoint.allow_config_change;
  const auto seed = static_cast<std::uint64_t>(config.runtime.seed);
  if (saved.seed == seed ||
      std::find(allowed.begin(), allowed.end(), "runtime.seed") != allowed.end())
    return;
  throw Error(ErrorKind::config, "checkpoint",
              fmt::format("the checkpoint was saved with the seed {}, runtime.seed is {}",
                          saved.seed, seed),
              "go back to that seed, or name runtime.seed in checkpoint.allow_config_change");
}

void restore(FoundState& found, training::TrainableModel& model, weighting::EmaTracker* ema,
             const BaseWeights& base) {
  require_agreement(found);
  checkpoint::CheckpointReader& reader = *found.reader;
  const bool lora_only = reader.manifest().kind == checkpoint::CheckpointKind::lora;
  const auto is_of_base = [&](const layout::ParamSpec& param) {
    return lora_only && !reader.find(param.name);
  };
  model.runtime().fill(
      [&](const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
        if (is_of_base(param)) return base.fill(param, begin, out);
        models::read_elements(reader, param.name, begin, out);
      },
      [&](const layout::ParamSpec& param, std::int64_t begin,
          std::int64_t count) -> std::optional<kernels::Nf4Weights> {
        if (!base.stored_nf4 || !is_of_base(param)) return std::nullopt;
        return base.stored_nf4(param, begin, count);
      });
  tell_conversions(load_moments(model, reader_of(reader)), model.runtime().placement().rank);
  model.optimizer().applied_steps().fill_(found.state.applied_updates);
  if (model.loss_scale() && found.state.loss_scale)
    model.loss_scale()->restore(*found.state.loss_scale);
  if (ema && found.state.ema) ema->restore(*found.state.ema);
}

}  // namespace wmtp::run
