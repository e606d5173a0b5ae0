// Numbers that the kernel tells in files.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace wmtp {

// The number after the word `name` in a table ("MemTotal:" of /proc/meminfo), or with no name the
// first of the file. Nothing where there is none ("max"), or no such file.
std::optional<std::int64_t> procfs_number(const char* path, std::string_view name = {});

struct CgroupFolder {
  std::string path;
  bool unified = false;  // of the one hierarchy of cgroup 2
};
// The folders of the group that /proc/self/cgroup, whose text `groups` is, names for `controller`
// ("0::/job" or "8:pids:/job"), and of the groups around it, inner ones first. Not all need exist.
std::vector<CgroupFolder> cgroup_folders(std::string_view groups, std::string_view controller,
                                         std::string_view root = "/sys/fs/cgroup");

}  // namespace wmtp
