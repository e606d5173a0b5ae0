// Copies of a checkpoint in which one thing is another, and all checksums fit: what a program that
// forgets that thing would have written.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "wmtp/checkpoint/format/manifest.h"
#include "wmtp/core/json.h"

namespace wmtp::test {

// `edit` changes trainer_state.json.
void copy_with_state(const std::filesystem::path& from, const std::filesystem::path& to,
                     const std::function<void(Json&)>& edit);
// `edit` changes what the manifest says, files and boxes aside.
void copy_with_manifest(const std::filesystem::path& from, const std::filesystem::path& to,
                        const std::function<void(checkpoint::Manifest&)>& edit);
// `edit` changes config.yaml.
void copy_with_config(const std::filesystem::path& from, const std::filesystem::path& to,
                      const std::function<void(std::string&)>& edit);
// All tensors whose name ends so are zero. Returns how many there were.
int copy_with_zeros(const std::filesystem::path& from, const std::filesystem::path& to,
                    std::string_view tensors);

}  // namespace wmtp::test
