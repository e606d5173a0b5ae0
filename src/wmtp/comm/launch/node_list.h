// Slurm's compressed lists: node names ("rack[1-2]n[01-03],login") and tasks per node ("8(x2),4").
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace wmtp::comm {

inline constexpr std::size_t kMaxNodeNames = 65'536;

// Items separated by commas outside brackets; in brackets numbers and ranges a-b of the width of a;
// the rightmost group varies fastest. Error config on anything else.
std::vector<std::string> expand_node_list(std::string_view list);

std::vector<int> expand_tasks_per_node(std::string_view list);

}  // namespace wmtp::comm
