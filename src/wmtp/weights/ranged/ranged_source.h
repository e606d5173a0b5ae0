// Weights of storage that cannot be mapped: of safetensors files the headers, then the ranges asked
// for and nothing else.
#pragma once
#include <filesystem>
#include <memory>
#include <string_view>

#include "wmtp/storage/file_system.h"
#include "wmtp/weights/weight_source.h"

namespace wmtp::weights {

// One safetensors file. Reads its header. Error data where it is none; errors of the storage.
std::unique_ptr<WeightSource> open_ranged_file(const storage::FileSystem& files,
                                               const std::filesystem::path& folder,
                                               std::string_view name, std::string_view origin);

// model.safetensors, or what its index names; nullptr: a folder without weights. Files that have to
// be read as a whole (.bin, .pt, .pth) are Error config with the advice to copy them.
std::unique_ptr<WeightSource> open_ranged_weights(const storage::FileSystem& files,
                                                  const std::filesystem::path& folder);

}  // namespace wmtp::weights
