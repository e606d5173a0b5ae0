// What bitsandbytes writes beside a weight of four bits:
// <name>.weight.quant_state.bitsandbytes__nf4 is a tensor of bytes, the text of a JSON object. No
// LibTorch here.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "wmtp/storage/stored_tensor.h"

namespace wmtp::weights {

// What follows the name of a weight; the type follows this.
inline constexpr std::string_view kQuantStateInfix = ".quant_state.bitsandbytes__";
inline constexpr std::uint64_t kMaxQuantStateBytes = 4096;

struct QuantState {
  storage::StoredDtype dtype = storage::StoredDtype::BF16;  // of the weight: F32, BF16 or F16
  std::vector<std::int64_t> shape;                          // [out, in]
  // The scales are stored in 8 bits themselves, this having been taken off them; nothing: as fp32.
  std::optional<float> nested_offset;

  std::int64_t numel() const { return shape[0] * shape[1]; }
  std::int64_t num_bytes() const { return (numel() + 1) / 2; }
  std::int64_t num_blocks() const;  // of 64 elements
  std::int64_t num_groups() const;  // of 256 blocks
};

// `origin` names the tensor and its file in messages. Error data for text that is damaged, lacks a
// key or holds sizes that no tensor has; Error config for what bitsandbytes can write and wmtp does
// not read: other types, sizes of blocks and dtypes, keys that are not known.
QuantState parse_quant_state(std::string_view text, std::string_view origin);

}  // namespace wmtp::weights
