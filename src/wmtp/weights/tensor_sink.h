// A file of named tensors that takes them in any order: the list is known from the start, so every
// tensor has its place, and memory stays at one tensor. For folders that become visible as a whole
// (fresh_folder.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "wmtp/storage/safetensors_header.h"
#include "wmtp/weights/stored_tensor.h"

namespace wmtp::weights {

class TensorSink {
 public:
  virtual ~TensorSink() = default;
  // A tensor's whole bytes, once. Error internal for a name or a size that was not announced.
  virtual void put(std::string_view name, std::span<const std::byte> bytes) = 0;
  // BLOCKS until the file is on the disk. Error internal when a tensor is missing.
  virtual void finish() = 0;
};

// The sinks' failures are ErrorKind::io. REQUIRES that there is no such file.
// Metadata gets "format": "pt" added.
std::unique_ptr<TensorSink> create_safetensors(const std::filesystem::path& path,
                                               std::vector<StoredTensor> tensors, Metadata metadata,
                                               unsigned mode);

// What `torch.load(weights_only=True)` gives back as
// {"model_state_dict": {name: tensor}, "total_steps": .., "start_batch_index": ..}.
struct TorchFileFacts {
  std::int64_t total_steps = 0, start_batch_index = 0;
};
std::unique_ptr<TensorSink> create_torch_file(const std::filesystem::path& path,
                                              std::vector<StoredTensor> tensors,
                                              const TorchFileFacts& facts, unsigned mode);

}  // namespace wmtp::weights
