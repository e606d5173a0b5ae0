#include "wmtp/core/procfs.h"

#include <fmt/format.h>

#include <fstream>

namespace wmtp {
namespace {

// The folder that a line of /proc/self/cgroup names, as far as it is of `controller`.
std::optional<CgroupFolder> cgroup_folder(std::string_view line, std::string_view controller,
                                          std::string_view root) {
  const std::size_t first = line.find(':'), second = line.find(':', first + 1);
  if (first == line.npos || second == line.npos) return std::nullopt;
  const std::string_view names = line.substr(first + 1, second - first - 1);
  const std::string_view path = line.substr(second + 1);
  if (names.empty()) return CgroupFolder{fmt::format("{}{}", root, path), true};
  if (names != controller) return std::nullopt;
  return CgroupFolder{fmt::format("{}/{}{}", root, controller, path), false};
}

}  // namespace

std::optional<std::int64_t> procfs_number(const char* path, std::string_view name) {
  std::ifstream file(path);
  std::string word;
  while (!name.empty() && word != name)
    if (!(file >> word)) return std::nullopt;
  std::int64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

std::vector<CgroupFolder> cgroup_folders(std::string_view groups, std::string_view controller,
                                         std::string_view root) {
  std::vector<CgroupFolder> folders;
  while (!groups.empty()) {
    const std::size_t end = groups.find('\n');
    auto folder = cgroup_folder(groups.substr(0, end), controller, root);
    groups.remove_prefix(end == groups.npos ? groups.size() : end + 1);
    while (folder && folder->path.size() >= root.size()) {
      if (folder->path.back() != '/') folders.push_back(*folder);
      folder->path.resize(folder->path.rfind('/'));
    }
  }
  return folders;
}

}  // namespace wmtp
