#include "wmtp/weights/torch_checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>

namespace wmtp::weights {
namespace {

constexpr std::string_view kAdapters = "lora_state_dict", kBackbone = "backbone_state_dict";
constexpr std::pair<std::string_view, std::string_view> kStateDicts[] = {
    {"model_state_dict", ""},
    {kBackbone, ""},
    {"adapter_state_dict", ""},
    {kAdapters, ""},
    {"extra_heads_state_dict", "extra_heads."},
    {"value_head_state_dict", "value_head."},
};
// Keys that say what the weights are.
constexpr std::string_view kFacts[] = {"checkpoint_type", "config", "lora_config",
                                       "base_model_path"};
// What the project applies where a file is silent: its models of transformers' kind, the others.
constexpr double kHfAlpha = 128, kAlpha = 16;

class TorchRoot {
 public:
  explicit TorchRoot(const PickleTree& tree) : tree_(tree) {}

  const PickleNode* find(std::initializer_list<std::string_view> path) const {
    std::uint32_t at = tree_.root;
    for (const std::string_view key : path) {
      const auto next = tree_.lookup(at, key);
      if (!next) return nullptr;
      at = *next;
    }
    return &tree_[at];
  }
  bool has(std::string_view key) const {
    const PickleNode* found = find({key});
    return found && found->kind == PickleKind::dict && !found->items.empty();
  }
  std::string text(std::initializer_list<std::string_view> path) const {
    const PickleNode* found = find(path);
    return found && found->kind == PickleKind::text ? std::string(found->text) : "";
  }
  std::optional<double> number(std::initializer_list<std::string_view> path) const {
    const PickleNode* found = find(path);
    if (found && found->kind == PickleKind::number) return found->number;
    if (found && found->kind == PickleKind::integer) return static_cast<double>(found->integer);
    return std::nullopt;
  }

 private:
  const PickleTree& tree_;
};

std::string named_base(const TorchRoot& root) {
  if (std::string path = root.text({"base_model_path"}); !path.empty()) return path;
  if (root.has(kBackbone)) return root.text({"config", "models", "value_model", "path"});
  if (std::string path = root.text({"config", "models", "policy", "path"}); !path.empty())
    return path;
  return root.text({"config", "model", "path"});
}

double alpha_of(const TorchRoot& root) {
  if (const auto alpha = root.number({"lora_config", "alpha"})) return *alpha;
  if (const auto alpha = root.number({"config", "training", "lora", "alpha"})) return *alpha;
  return root.text({"checkpoint_type"}) == "hf_lora" ? kHfAlpha : kAlpha;
}

// Tensors that lie directly in a dict, those with at least `min_dims` dimensions.
std::size_t count_tensors(const PickleTree& tree, const PickleNode& dict, std::size_t min_dims) {
  if (dict.kind != PickleKind::dict) return 0;
  std::size_t count = 0;
  for (std::size_t i = 1; i < dict.items.size(); i += 2) {
    const PickleNode& value = tree[dict.items[i]];
    count += value.kind == PickleKind::tensor &&
             tree.tensors[static_cast<std::size_t>(value.integer)].shape.size() >= min_dims;
  }
  return count;
}

bool is_read(std::string_view key) {
  return std::ranges::find(kFacts, key) != std::end(kFacts) ||
         std::ranges::any_of(kStateDicts, [key](const auto& dict) { return dict.first == key; });
}

template <typename Take>
void for_each_key(const PickleTree& tree, const Take& take) {
  const PickleNode& root = tree[tree.root];
  if (root.kind != PickleKind::dict) return;
  for (std::size_t i = 0; i + 1 < root.items.size(); i += 2)
    if (tree[root.items[i]].kind == PickleKind::text)
      take(tree[root.items[i]].text, tree[root.items[i + 1]]);
}

void note_other_keys(const PickleTree& tree, TorchCheckpoint& checkpoint) {
  for_each_key(tree, [&](std::string_view key, const PickleNode& value) {
    if (is_read(key)) return;
    checkpoint.left_out.emplace_back(key);
    if (count_tensors(tree, value, 2) > 0) checkpoint.unknown_weights.emplace_back(key);
  });
}

}  // namespace

std::string torch_keys_text(const PickleTree& tree) {
  constexpr std::size_t kShown = 20;
  std::vector<std::string> keys;
  for_each_key(tree, [&](std::string_view key, const PickleNode& value) {
    const std::size_t tensors = count_tensors(tree, value, 0);
    keys.push_back(tensors ? fmt::format("{} ({} tensors)", key, tensors) : std::string(key));
  });
  const std::size_t more = keys.size() > kShown ? keys.size() - kShown : 0;
  if (more) keys.resize(kShown);
  return fmt::format("{}{}", fmt::join(keys, ", "), more ? fmt::format(" and {} more", more) : "");
}

std::string known_state_dicts_text() {
  std::vector<std::string_view> keys;
  for (const auto& [key, prefix] : kStateDicts) keys.push_back(key);
  return fmt::format("{}", fmt::join(keys, ", "));
}

std::optional<TorchCheckpoint> read_torch_checkpoint(const PickleTree& tree) {
  const TorchRoot root(tree);
  bool whole = false, any = false;
  for (const auto& [key, prefix] : kStateDicts) {
    any |= root.has(key);
    whole |= root.has(key) &&
             (key == "model_state_dict" || key == kBackbone || key == "adapter_state_dict");
  }
  if (!any) return std::nullopt;
  TorchCheckpoint checkpoint;
  checkpoint.adapters_only = !whole;
  checkpoint.base_model = named_base(root);
  checkpoint.alpha = alpha_of(root);
  const PickleNode* rank = root.find({"lora_config", "rank"});
  if (rank && rank->kind == PickleKind::integer) checkpoint.rank = rank->integer;
  checkpoint.dropout = root.number({"lora_config", "dropout"}).value_or(0);
  checkpoint.value_head = root.text({"config", "training", "value_head_type"});
  note_other_keys(tree, checkpoint);
  return checkpoint;
}

std::vector<TorchStateDict> torch_state_dicts(const PickleTree& tree) {
  std::vector<TorchStateDict> dicts;
  for (const auto& [key, prefix] : kStateDicts)
    if (const auto dict = tree.lookup(tree.root, key)) dicts.push_back({*dict, prefix});
  if (dicts.empty()) dicts.push_back({tree.root, ""});
  return dicts;
}

}  // namespace wmtp::weights
