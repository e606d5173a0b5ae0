#include "wmtp/core/procfs.h"

#include <fstream>
#include <string>

namespace wmtp {

std::optional<std::int64_t> procfs_number(const char* path, std::string_view name) {
  std::ifstream file(path);
  std::string word;
  while (!name.empty() && word != name)
    if (!(file >> word)) return std::nullopt;
  std::int64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

}  // namespace wmtp
