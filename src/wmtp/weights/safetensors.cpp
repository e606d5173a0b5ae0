#include "wmtp/weights/safetensors.h"

#include <algorithm>

namespace wmtp::weights {
SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  return SafetensorsFile(storage::MappedFile::open(path, ErrorKind::config));
}

SafetensorsFile::SafetensorsFile(storage::MappedFile file)
    : file_(std::move(file)),
      header_(
          storage::parse_safetensors_header(file_.bytes(), file_.size(), file_.path().string())) {}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto at =
      std::lower_bound(header_.tensors.begin(), header_.tensors.end(), name,
                       [](const auto& tensor, std::string_view key) { return tensor.name < key; });
  return at != header_.tensors.end() && at->name == name ? &*at : nullptr;
}

std::span<const std::byte> SafetensorsFile::bytes(const StoredTensor& tensor) const {
  return file_.bytes().subspan(static_cast<std::size_t>(header_.data_begin + tensor.begin),
                               static_cast<std::size_t>(tensor.end - tensor.begin));
}

}  // namespace wmtp::weights
