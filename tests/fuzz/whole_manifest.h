// What an accepted manifest promises: whole digests, and boxes with all elements of every tensor.
#pragma once
#include <map>

#include "fuzz/fuzz.h"
#include "wmtp/checkpoint/format/manifest.h"

namespace wmtp::fuzz {

inline void require_digests(const std::vector<checkpoint::FileRecord>& files) {
  for (const checkpoint::FileRecord& file : files)
    require(file.sha256.size() == 64, "a SHA-256 of another length");
}

inline void require_whole(const checkpoint::Manifest& manifest) {
  require_digests(manifest.files);
  std::map<std::string_view, std::int64_t> missing;
  for (const checkpoint::TensorTable* table : {&manifest.model_tensors, &manifest.optim_tensors})
    for (const auto& [name, tensor] : *table) missing[name] = storage::numel(tensor.shape);
  for (const checkpoint::FileRecord& file : manifest.files) {
    if (!file.path.starts_with("model/") && !file.path.starts_with("optim/")) continue;
    for (const checkpoint::BoxRecord& box : file.boxes) {
      std::int64_t numel = 1;
      for (const std::int64_t extent : box.shape) numel *= extent;
      missing[box.tensor] -= numel;
    }
  }
  for (const auto& [name, numel] : missing) require(numel == 0, "boxes that are not the tensor");
}

}  // namespace wmtp::fuzz
