// The pickles of torch.save, taken apart without running anything: opcodes and globals outside a
// short list are refused by name and offset, and what a permitted global means is known here.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wmtp/weights/stored_tensor.h"

namespace wmtp::weights {

// A tensor of the archive: elements offset + sum(index * stride) of the storage data/<key>.
struct PickledTensor {
  std::string storage_key;
  StoredDtype dtype = StoredDtype::F32;
  std::int64_t storage_numel = 0, offset = 0;
  std::vector<std::int64_t> shape, strides;
};

enum class PickleKind {
  none,
  boolean,
  integer,
  number,
  text,
  list,
  tuple,
  dict,
  global,
  storage,
  tensor
};

struct PickleNode {
  PickleKind kind = PickleKind::none;
  std::int64_t integer = 0;  // boolean, integer; tensor: index into tensors
  double number = 0;
  std::string_view text = {};             // text; global: "module.name"
  std::vector<std::uint32_t> items = {};  // list, tuple, storage; dict: key, value, key, value ...
  bool ordered_dict = false;
  int depth = 0;
};

// Nodes refer to each other by index; an object may occur in several places, even inside itself, so
// readers must not walk without a bound.
struct PickleTree {
  std::vector<PickleNode> nodes;
  std::vector<PickledTensor> tensors;
  std::uint32_t root = 0;

  const PickleNode& operator[](std::uint32_t index) const { return nodes[index]; }
  // The value under a text key of a dict; the last one counts. Nothing: no dict or no such key.
  std::optional<std::uint32_t> lookup(std::uint32_t dict, std::string_view key) const;
};

// BORROWS `bytes` (texts point into it). ErrorKind::data for what is damaged or not permitted.
PickleTree parse_torch_pickle(std::span<const std::byte> bytes, std::string_view origin);

}  // namespace wmtp::weights
