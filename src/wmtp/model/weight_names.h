// The parameters of a model by name and shape, and how other schemes call them. wmtp's names, in
// memory and in files, are transformers' names plus model.extra_heads.*, value_head.* and
// *.lora_{A,B}.weight; the rotary layout is half-split.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/layout/name_map.h"
#include "wmtp/layout/unit_spec.h"
#include "wmtp/model/model_config.h"

namespace wmtp::model {

// Units in forward order: "root" (embedding, unembedding unless tied, final norm), the trunk's
// blocks, then one block per prediction head (head 1: the last of model.layers). Inside a block: q,
// k, v, o, gate, up, down, then the norm vectors, so that q|k|v and gate|up are each one matrix.
std::vector<layout::UnitSpec> model_units(const ModelConfig& config);

// Marks the frozen projection matrices of blocks as quantised, head blocks' too: all those whose
// size and place among the frozen ones of their unit are multiples of 64. Returns the names of the
// others.
std::vector<std::string> quantize_projections(std::vector<layout::UnitSpec>& units);

// Marks the trained projection matrices of blocks, head blocks' too, as computed with in float8: q,
// k and v are one matrix, gate and up another. Blocks of which any is frozen are left out.
void mark_float8_matrices(std::vector<layout::UnitSpec>& units);

enum class ValueHeadType { mlp, linear, sigmoid };
std::string_view name_of(ValueHeadType type);
ValueHeadType value_head_type(std::string_view name);  // Error config for other names

// The value head on hidden size `dim`, as a unit of its own named "value_head".
layout::UnitSpec value_head_unit(ValueHeadType type, std::int64_t dim);

// Meta's names (tok_embeddings.weight, layers.3.attention.wq.weight, extra_heads.0...) to wmtp's.
// Rows of q and k weights, and of their lora_B, are marked as interleaved.
layout::NameMap meta_name_map(const ModelConfig& config);
std::optional<std::string> from_meta_name(std::string_view meta_name);

// "q_proj" for "q_proj" and for Meta's "wq"; nothing for a name of neither scheme.
std::optional<std::string_view> projection_name(std::string_view short_name);

// PEFT's name of an adapter tensor: "base_model.model." + wmtp's. Back: nothing without that
// prefix.
std::string to_peft_name(std::string_view name);
std::optional<std::string> from_peft_name(std::string_view peft_name);

}  // namespace wmtp::model
