#include "wmtp/weights/torch_checkpoint.h"

#include <initializer_list>
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

}  // namespace

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
  checkpoint.value_head = root.text({"config", "training", "value_head_type"});
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
