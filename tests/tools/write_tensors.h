// Named tensors into one safetensors file.
#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "wmtp/checkpoint/safetensors.h"
#include "wmtp/checkpoint/safetensors_tensor.h"

namespace wmtp::test {

inline void write_tensors(const std::filesystem::path& path,
                          const std::vector<std::pair<std::string, Tensor>>& tensors) {
  std::vector<checkpoint::StoredTensor> stored;
  for (const auto& [name, tensor] : tensors)
    stored.push_back({.name = name,
                      .dtype = checkpoint::to_stored(tensor.scalar_type()),
                      .shape = tensor.sizes().vec()});
  checkpoint::SafetensorsWriter writer(path, stored);
  for (const checkpoint::StoredTensor& entry : writer.tensors())
    for (const auto& [name, tensor] : tensors)
      if (name == entry.name) writer.write(checkpoint::bytes_of(tensor.cpu().contiguous()));
  writer.commit();
}

}  // namespace wmtp::test
