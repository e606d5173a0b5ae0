// LoRA: y = x W^T + s dropout(x) A^T B^T with W frozen, A [r, in], B [out, r], s = alpha / r
// (rsLoRA: alpha / sqrt(r)). B starts at zero, so at the start the output is the base's, bit for
// bit.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/layout/unit_spec.h"
#include "wmtp/model/model_config.h"

namespace wmtp::model {

enum class LoraScope { both, trunk, heads };  // heads: head 1's block and the extra heads

struct LoraModule {
  std::int64_t rank = 0;
  double alpha = 0;
  bool operator==(const LoraModule&) const = default;
};

struct LoraConfig {
  std::int64_t rank = 8;
  double alpha = 16, dropout = 0;
  std::vector<std::string> targets{"q_proj", "k_proj", "v_proj",
                                   "o_proj"};  // transformers' short names
  LoraScope scope = LoraScope::both;
  bool train_heads = false;  // scope trunk: head blocks are trained whole
  bool rslora = false;
  // Of adapters whose modules are not all alike: these modules of the model and no others, each
  // with its own rank and alpha. Empty: the targets of every block in scope, with `rank` and
  // `alpha`.
  std::map<std::string, LoraModule, std::less<>> modules = {};

  double scale() const { return scale({rank, alpha}); }
  double scale(const LoraModule& module) const;
  // Of a target in a block within the scope; nothing where it has no adapter.
  std::optional<LoraModule> adapter_of(std::string_view module) const;
  bool operator==(const LoraConfig&) const = default;
};

// Targets in either naming scheme to transformers' names, in the order of a block; Error config
// that lists every unknown name, and for a rank, alpha, dropout or scope that cannot be. `modules`
// are names of the model.
LoraConfig checked(LoraConfig lora, const ModelConfig& config);

// How a unit takes part.
enum class LoraRole { frozen, adapted, whole };
LoraRole lora_role(const ModelConfig& config, const LoraConfig& lora, std::size_t unit);

// model_units with the base frozen and the adapters behind it. Of targets that read the same input
// (q|k|v, o, gate|up, down) first every A, then every B, in the order of the block: their A are one
// contiguous matrix.
std::vector<layout::UnitSpec> lora_units(const ModelConfig& config, const LoraConfig& lora);
std::int64_t lora_parameters(const ModelConfig& config, const LoraConfig& lora);
// The modules whose adapters draw a mask of their input: all that have one, or none without
// dropout.
std::vector<std::string> dropout_sites(const ModelConfig& config, const LoraConfig& lora);

}  // namespace wmtp::model
