// Where a run takes place.
#pragma once
#include <cstdint>
#include <optional>

#include "wmtp/tensor/cuda_plugin.h"
#include "wmtp/tensor/tensor.h"
#include "wmtp/weights/model_folder.h"

namespace wmtp::run {

struct RunContext {
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  int rank = 0, world = 1;
  std::int64_t memory_bytes = 0;  // that a rank may use
  weights::Environment environment;
  int local_rank = 0, local_world = 1;  // on its node
  // The GPU that a plan names in the place of one here: its name and compute capability.
  std::optional<GpuInfo> named_gpu = {};

  // Who builds indexes and token caches for the node.
  bool first_of_node() const { return local_rank == 0; }
};

}  // namespace wmtp::run
