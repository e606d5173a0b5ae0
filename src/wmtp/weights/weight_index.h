// *.index.json: which file of a model folder holds which tensors.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace wmtp::weights {

using WeightIndex = std::map<std::string, std::vector<std::string>>;  // file -> its tensors

inline constexpr std::size_t kMaxIndexFileName = 255;  // bytes

// "weight_map" of the text; `origin` stands in messages. What is damaged, beyond the limits (64
// MiB, depth 4, 1,000,000 names, 100,000 files) or names a file by anything but a bare name is
// ErrorKind::data.
WeightIndex parse_weight_index(std::string_view text, std::string_view origin);
WeightIndex read_weight_index(const std::filesystem::path& path);

}  // namespace wmtp::weights
