#include "wmtp/run/report/tracked_facts.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "wmtp/config/tables/schema.h"
#include "wmtp/core/error.h"
#include "wmtp/models/model_name.h"
#include "wmtp/run/report/git_checkout.h"
#include "wmtp/run/report/public_text.h"

namespace wmtp::run {
namespace {

constexpr std::size_t kDigestLength = 32;  // MLflow takes 36 characters

// Whole sections end in a dot. Paths among them are left out.
constexpr std::array<std::string_view, 38> kTrackedKeys{"experiment.name",
                                                        "experiment.stage",
                                                        "models.policy.dtype",
                                                        "models.policy.init",
                                                        "models.policy.n_future_tokens",
                                                        "models.policy.add_heads",
                                                        "models.policy.params",
                                                        "models.value_model.dtype",
                                                        "models.value_model.placement",
                                                        "models.reference.name",
                                                        "models.reference.dtype",
                                                        "models.reference.placement",
                                                        "dataset.name",
                                                        "dataset.format",
                                                        "dataset.max_length",
                                                        "dataset.prompt_template",
                                                        "dataset.tokenize",
                                                        "dataset.add_bos",
                                                        "dataset.append_eos",
                                                        "dataset.truncate",
                                                        "dataset.allow_special_tokens",
                                                        "dataset.packing",
                                                        "dataset.pack_multiple",
                                                        "dataset.pad_to",
                                                        "dataset.max_tokens_per_batch",
                                                        "dataset.text.",
                                                        "data_sampling.",
                                                        "training.",
                                                        "distributed.fsdp.",
                                                        "distributed.backend",
                                                        "runtime.device",
                                                        "runtime.seed",
                                                        "runtime.threads",
                                                        "runtime.deterministic",
                                                        "runtime.cuda_graphs",
                                                        "runtime.attention",
                                                        "runtime.gemm_choice",
                                                        "runtime.loss_chunk_rows"};

bool is_tracked(const std::string& key) {
  return !config::schema().find(key)->type.path &&
         std::any_of(kTrackedKeys.begin(), kTrackedKeys.end(), [&key](std::string_view tracked) {
           return tracked.ends_with('.') ? key.starts_with(tracked) : key == tracked;
         });
}

// What checkpoints call the model, unless that was made of a value of the environment.
std::string public_model_name(const config::ResolvedConfig& resolved) {
  for (const char* name : {"models.policy.name", "models.policy.path"})
    if (const auto& key = key_named(resolved, name); !key.reference.is_null())
      return plain_text(key.reference);
  return models::model_name(resolved.config);
}

// The texts that are not empty, redacted.
class TextCollector {
 public:
  explicit TextCollector(const Redactor& redact) : redact_(redact) {}
  void add(std::string name, std::string_view text) {
    if (!text.empty()) texts_.emplace_back(std::move(name), redact_(text));
  }
  NamedTexts take() { return std::move(texts_); }

 private:
  const Redactor& redact_;
  NamedTexts texts_;
};

std::optional<OrderedJson> environment_fact(const TrackedRun& run, const char* pointer) {
  const OrderedJson::json_pointer place(pointer);
  return run.environment.contains(place) ? std::optional(run.environment.at(place)) : std::nullopt;
}

std::string file_stem(const std::string& path) {
  return std::filesystem::path(path).stem().string();
}

OrderedJson dataset_input(const TrackedRun& run, const Redactor& redact, const std::string& split,
                          const std::string& digest) {
  std::vector<std::string> sources = public_texts(run.resolved, "dataset." + split);
  std::string name = public_text(run.resolved, "dataset.name");
  if (name.empty()) name = sources.empty() ? "data" : file_stem(sources.front());
  if (split == "validation") name += " validation";  // MLflow keeps one of each name and digest
  for (std::string& source : sources) source = redact(source);
  OrderedJson source{{"uri", sources.empty() ? "" : sources.front()}};
  if (sources.size() > 1) source["uris"] = sources;
  OrderedJson profile = OrderedJson::object();
  for (const auto& [key, fact] :
       {std::pair("num_rows", "rows"), std::pair("num_samples", "samples"),
        std::pair("num_tokens", "lengths/tokens"), std::pair("num_targets", "lengths/targets")})
    if (const auto value = environment_fact(run, ("/data/" + split + "/" + fact).c_str()))
      profile[key] = *value;
  const char* context = split == "train" ? "training" : "validation";
  return {{"tags", {{{"key", "mlflow.data.context"}, {"value", context}}}},
          {"dataset",
           {{"name", redact(name)},
            {"digest", digest.substr(0, kDigestLength)},
            {"source_type", "local"},
            {"source", source.dump()},
            {"profile", profile.dump()}}}};
}

void add_model(const TrackedRun& run, TextCollector& params) {
  const model::ModelConfig& model = run.model;
  params.add("model.architecture", model::name_of(model.architecture));
  for (const auto& [name, size] :
       {std::pair("dim", model.dim), std::pair("num_blocks", model.num_blocks),
        std::pair("num_heads", model.num_heads), std::pair("num_kv_heads", model.num_kv_heads),
        std::pair("head_dim", model.head_dim), std::pair("ffn_dim", model.ffn_dim),
        std::pair("vocab_size", model.vocab_size), std::pair("n_future", model.n_future)})
    params.add(fmt::format("model.{}", name), std::to_string(size));
}

}  // namespace

std::string process_user() {
  std::array<char, 16384> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  const uid_t uid = ::geteuid();
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
    return found->pw_name;
  return fmt::format("uid {}", uid);
}

NamedTexts tracked_params(const TrackedRun& run, const Redactor& redact) {
  TextCollector params(redact);
  for (const config::ResolvedKey& key : run.resolved.keys)
    if (is_tracked(key.key)) params.add(key.key, plain_text(public_value(key)));
  params.add("model.name", public_model_name(run.resolved));
  add_model(run, params);
  for (const auto& [name, fact] :
       {std::pair("model.parameters", "/trainable/total"),
        std::pair("model.trained_parameters", "/trainable/trained"),
        std::pair("data.train.samples", "/data/train/samples"),
        std::pair("data.train.tokens", "/data/train/lengths/tokens"),
        std::pair("data.validation.samples", "/data/validation/samples"),
        std::pair("data.validation.tokens", "/data/validation/lengths/tokens"),
        std::pair("distributed.world_size", "/ranks"), std::pair("runtime.device_name", "/device")})
    if (const auto value = environment_fact(run, fact)) params.add(name, plain_text(*value));
  return params.take();
}

NamedTexts tracked_tags(const TrackedRun& run, const TrackedStart& start, const Redactor& redact) {
  const config::ResolvedConfig& resolved = run.resolved;
  TextCollector tags(redact);
  tags.add("mlflow.runName", public_text(resolved, "mlflow.run_name"));
  tags.add("mlflow.user", start.user);
  tags.add("mlflow.source.name", redacted_command(start.words, redact));
  tags.add("mlflow.source.type", start.is_job ? "JOB" : "LOCAL");
  if (const auto git = find_git_checkout(start.config_file.parent_path())) {
    tags.add("mlflow.source.git.commit", git->commit);
    tags.add("mlflow.source.git.branch", git->branch);
  }
  tags.add("mlflow.note.content", public_text(resolved, "experiment.description"));
  if (const auto version = environment_fact(run, "/wmtp"))
    tags.add("wmtp.version", plain_text(*version));
  tags.add("wmtp.run_uid", start.run_uid);
  tags.add("wmtp.stage", public_text(resolved, "experiment.stage"));
  tags.add("wmtp.tags",
           fmt::format("{}", fmt::join(public_texts(resolved, "experiment.tags"), ", ")));
  tags.add("wmtp.model.name", public_model_name(resolved));
  for (const auto& [tag, key] :
       {std::pair("wmtp.model.source", "models.policy.path"),
        std::pair("wmtp.value_model.source", "models.value_model.path"),
        std::pair("wmtp.value_model.checkpoint", "models.value_model.checkpoint_path"),
        std::pair("wmtp.reference.source", "models.reference.path"),
        std::pair("wmtp.reference.checkpoint", "models.reference.checkpoint_path")})
    tags.add(tag, public_text(resolved, key));
  return tags.take();
}

OrderedJson tracked_inputs(const TrackedRun& run, const Redactor& redact) {
  OrderedJson datasets = OrderedJson::array();
  if (!run.train_digest.empty())
    datasets.push_back(dataset_input(run, redact, "train", run.train_digest));
  if (!run.validation_digest.empty())
    datasets.push_back(dataset_input(run, redact, "validation", run.validation_digest));
  return {{"datasets", std::move(datasets)}};
}

}  // namespace wmtp::run
