#include "wmtp/config/key_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "wmtp/core/suggest.h"

namespace wmtp::config {
namespace {

using NamePair = std::pair<std::string_view, std::string_view>;

constexpr std::array<NamePair, 10> kAliases{{
    {"training.td_lambda", "training.td.lambda"},
    {"training.beta", "training.td.beta"},
    {"training.weight_clip_min", "training.td.clip_min"},
    {"training.weight_clip_max", "training.td.clip_max"},
    {"training.td_ema_momentum", "training.td.ema_momentum"},
    {"training.td_ema_warmup_steps", "training.td.ema_warmup_steps"},
    {"training.rho1_mode", "training.rho1.mode"},
    {"training.k_percent", "training.rho1.k_percent"},
    {"training.value_coef", "training.value.coef"},
    {"training.scheduler", "training.lr_scheduler"},
}};

constexpr std::array<NamePair, 9> kRemoved{{
    {"project", "use experiment.name, and mlflow.experiment for the tracking project"},
    {"runtime.mixed_precision", "use distributed.fsdp.mixed_precision"},
    {"runtime.ddp", "use distributed.fsdp.sharding_strategy: NO_SHARD"},
    {"runtime.fsdp", "use distributed.fsdp"},
    {"mlflow.s3_artifacts", "use checkpoint.s3_upload and storage.s3"},
    {"mlflow.experiment_name", "use mlflow.experiment"},
    {"training.fp16", "use distributed.fsdp.param_dtype: fp16"},
    {"training.bf16", "use distributed.fsdp.mixed_precision: true"},
    {"dataset.batch_size", "use training.batch_size"},
}};

// What other programs call a key, where no near name would lead to it.
constexpr std::array<NamePair, 15> kForeignNames{{
    {"training.lr", "training.learning_rate"},
    {"training.num_epochs", "training.n_epochs"},
    {"training.num_train_epochs", "training.n_epochs"},
    {"training.steps", "training.max_steps"},
    {"training.per_device_train_batch_size", "training.batch_size"},
    {"training.grad_accum", "training.gradient_accumulation_steps"},
    {"training.grad_clip", "training.max_grad_norm"},
    {"training.weight_decay", "training.optimizer.weight_decay"},
    {"training.gradient_checkpointing", "distributed.fsdp.activation_checkpointing"},
    {"training.max_seq_length", "dataset.max_length"},
    {"training.seed", "runtime.seed"},
    {"training.output_dir", "runtime.run_dir"},
    {"dataset.path", "dataset.train"},
    {"dataset.max_seq_length", "dataset.max_length"},
    {"models.path", "models.policy.path"},
}};

bool under(std::string_view path, std::string_view prefix) {
  return path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '.');
}

std::optional<std::size_t> index_of(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

bool add_step(std::string_view part, std::vector<PathStep>& steps) {
  const std::string_view name = part.substr(0, part.find('['));
  part.remove_prefix(name.size());
  if (name.empty()) return false;
  if (const auto index = index_of(name); index && !steps.empty())
    steps.emplace_back(*index);
  else
    steps.emplace_back(std::string(name));
  while (!part.empty()) {
    const auto close = part.find(']');
    if (part[0] != '[' || close == part.npos) return false;
    const auto index = index_of(part.substr(1, close - 1));
    if (!index) return false;
    steps.emplace_back(*index);
    part.remove_prefix(close + 1);
  }
  return true;
}

std::string name_of_step(const PathStep& step) {
  if (const auto* index = std::get_if<std::size_t>(&step)) return std::to_string(*index);
  return std::get<std::string>(step);
}

bool speaks_of_secrets(std::string_view path) {
  const auto dot = path.rfind('.');
  std::string name(dot == path.npos ? path : path.substr(dot + 1));
  std::transform(name.begin(), name.end(), name.begin(), ::tolower);
  for (const char* word :
       {"secret", "password", "passwd", "access_key", "credential", "api_key", "token_id"})
    if (name.find(word) != name.npos) return true;
  return name == "token" || name == "username";
}

std::string parent_of(std::string_view path) {
  const auto dot = path.rfind('.');
  return std::string(dot == path.npos ? "" : path.substr(0, dot));
}

std::vector<std::string> sibling_names(const std::string& parent) {
  std::vector<std::string> names = schema().children(parent);
  for (const auto& [alias, main] : kAliases)
    if (parent_of(alias) == parent) names.emplace_back(alias.substr(parent.size() + 1));
  return names;
}

Node* step_into(Node& node, const std::string& name, bool create, std::string& fact) {
  if (create && node.is(Node::Kind::null)) node.kind = Node::Kind::map;
  if (!node.is(Node::Kind::map)) {
    fact = fmt::format("no key \"{}\" here: {} is not a map", name, describe(node));
    return nullptr;
  }
  if (Node* found = node.find(name)) return found;
  if (!create) {
    fact = fmt::format("no key \"{}\" here", name);
    return nullptr;
  }
  node.keys.push_back({name, {}});
  return &node.items.emplace_back();
}

Node* step_into(Node& node, std::size_t index, bool create, std::string& fact) {
  if (node.is(Node::Kind::map)) return step_into(node, std::to_string(index), create, fact);
  if (!node.is(Node::Kind::list)) {
    fact = fmt::format("no index {} here: {} is not a list", index, describe(node));
    return nullptr;
  }
  if (index < node.items.size()) return &node.items[index];
  if (create && index == node.items.size()) return &node.items.emplace_back();
  fact = fmt::format("index {} is out of range, the list has {} item{}", index, node.items.size(),
                     node.items.size() == 1 ? "" : "s");
  return nullptr;
}

}  // namespace

std::optional<std::vector<PathStep>> split_path(std::string_view path) {
  std::vector<PathStep> steps;
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t dot = std::min(path.find('.', start), path.size());
    if (!add_step(path.substr(start, dot - start), steps)) return std::nullopt;
    start = dot + 1;
  }
  return steps;
}

std::string main_name(std::string_view path) {
  for (const auto& [alias, main] : kAliases)
    if (under(path, alias)) return std::string(main) + std::string(path.substr(alias.size()));
  return std::string(path);
}

bool is_alias(std::string_view path) {
  return std::any_of(kAliases.begin(), kAliases.end(),
                     [&](const NamePair& pair) { return under(path, pair.first); });
}

std::string replacement_of_removed(std::string_view path) {
  for (const auto& [removed, advice] : kRemoved)
    if (under(path, removed)) return std::string(advice);
  return "";
}

std::string unknown_key_fact(std::string_view path) {
  if (speaks_of_secrets(path))
    return "unknown key; credentials are never keys: S3 takes AWS_* variables, profile files or "
           "the "
           "instance role, MLflow takes MLFLOW_TRACKING_TOKEN, _USERNAME and _PASSWORD";
  for (const auto& [foreign, ours] : kForeignNames)
    if (path == foreign) return fmt::format("unknown key; did you mean \"{}\"?", ours);
  const std::string parent = parent_of(path);
  const std::string name(path.substr(parent.empty() ? 0 : parent.size() + 1));
  // Long names may differ by more: "shard_strategy" is near "sharding_strategy".
  if (const auto near =
          nearest(name, sibling_names(parent), std::max<std::size_t>(2, name.size() / 4)))
    return fmt::format("unknown key; did you mean \"{}\"?", *near);
  std::vector<std::string> elsewhere;
  for (const std::string& known : schema().keys_and_sections())
    if (known.ends_with("." + name)) elsewhere.push_back(known);
  if (elsewhere.size() == 1) return fmt::format("unknown key; did you mean \"{}\"?", elsewhere[0]);
  return "unknown key";
}

std::optional<KeyTarget> find_target(std::string_view path, std::string& fact) {
  const auto steps = split_path(path);
  if (!steps) {
    fact = "not a key path; write section.key, list items as key[0]";
    return std::nullopt;
  }
  std::string name;
  for (std::size_t i = 0; i < steps->size(); ++i) {
    name += (name.empty() ? "" : ".") + name_of_step((*steps)[i]);
    const std::string main = main_name(name);
    if (const Row* row = schema().find(main))
      return KeyTarget{
          main, row, {steps->begin() + static_cast<std::ptrdiff_t>(i) + 1, steps->end()}};
    if (const std::string advice = replacement_of_removed(name); !advice.empty()) {
      fact = "no longer a key; " + advice;
      return std::nullopt;
    }
    if (!schema().is_section(main)) {
      fact = unknown_key_fact(name);
      return std::nullopt;
    }
  }
  return KeyTarget{main_name(name), nullptr, {}};
}

Node* walk(Node& value, const std::vector<PathStep>& rest, bool create, std::string& fact) {
  Node* node = &value;
  for (const PathStep& step : rest) {
    node = std::visit([&](const auto& s) { return step_into(*node, s, create, fact); }, step);
    if (!node) return nullptr;
  }
  return node;
}

}  // namespace wmtp::config
