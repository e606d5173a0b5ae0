// Named tensors into one safetensors file, in the place of one that is there already.
#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "wmtp/weights/safetensors_tensor.h"
#include "wmtp/weights/tensor_sink.h"

namespace wmtp::test {

inline void write_tensors(const std::filesystem::path& path,
                          const std::vector<std::pair<std::string, Tensor>>& tensors) {
  std::vector<weights::StoredTensor> stored;
  for (const auto& [name, tensor] : tensors)
    stored.push_back({.name = name,
                      .dtype = weights::to_stored(tensor.scalar_type()),
                      .shape = tensor.sizes().vec()});
  std::filesystem::remove(path);
  const auto sink = weights::create_safetensors(path, stored, {}, 0600);
  for (const auto& [name, tensor] : tensors)
    sink->put(name, weights::bytes_of(tensor.cpu().contiguous()));
  sink->finish();
}

}  // namespace wmtp::test
