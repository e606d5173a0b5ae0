// What a model says of its weights: units in forward order, each a list of named parameters that
// lie end to end in the unit's flat buffer. A parameter is a range of that buffer; sharding,
// gradients, optimizer and checkpoints all speak in these ranges.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace wmtp::layout {

struct ParamSpec {
  std::string name;  // wmtp's name, e.g. model.layers.3.self_attn.q_proj.weight
  std::vector<std::int64_t> shape;
  bool trained = true;  // frozen ones lie in a buffer of their own
  // Frozen, and kept in 4 bits (NF4). Its size and its place in that buffer are multiples of 64.
  bool quantized = false;
  // Trained, and computed with in float8: the matrix of its unit that it is a part of, which has
  // one scale, counted from 1 (q, k and v are one). 0: computed with as it is.
  int float8_matrix = 0;

  std::int64_t numel() const {
    std::int64_t product = 1;
    for (std::int64_t extent : shape) product *= extent;
    return product;
  }
};

struct UnitSpec {
  std::string name;  // e.g. root, model.layers.3
  std::vector<ParamSpec> params;
  bool kept = false;            // stays gathered for the whole step (root, value head)
  bool full_precision = false;  // computes in fp32 whatever the compute dtype (value head)

  std::int64_t numel() const {
    std::int64_t sum = 0;
    for (const ParamSpec& param : params) sum += param.numel();
    return sum;
  }
};

}  // namespace wmtp::layout
