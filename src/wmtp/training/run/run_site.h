// Where a run takes place.
#pragma once
#include <cstdint>

#include "wmtp/checkpoint/model_folder.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::training {

struct RunSite {
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  int rank = 0, world = 1;
  std::int64_t memory_bytes = 0;  // that a rank may use
  checkpoint::Environment environment;
};

}  // namespace wmtp::training
