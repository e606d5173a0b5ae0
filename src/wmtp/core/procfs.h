// Numbers that the kernel tells in files.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace wmtp {

// The number after the word `name` in a table ("MemTotal:" of /proc/meminfo), or with no name the
// first of the file. Nothing where there is none ("max"), or no such file.
std::optional<std::int64_t> procfs_number(const char* path, std::string_view name = {});

}  // namespace wmtp
