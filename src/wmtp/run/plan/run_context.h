// Where a run takes place.
#pragma once
#include <cstdint>

#include "wmtp/tensor/tensor.h"
#include "wmtp/weights/model_folder.h"

namespace wmtp::run {

struct RunContext {
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  int rank = 0, world = 1;
  std::int64_t memory_bytes = 0;  // that a rank may use
  weights::Environment environment;
  bool first_of_node = true;  // the rank that builds indexes and token caches for its node
};

}  // namespace wmtp::run
