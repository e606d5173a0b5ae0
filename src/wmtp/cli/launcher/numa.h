// `--bind numa`: ranks spread over the NUMA nodes of this machine, each on the cores of one node,
// with memory preferred there.
#pragma once
#include <sched.h>

#include <string_view>
#include <vector>

namespace wmtp::cli {

struct NumaNode {
  int id = 0;
  cpu_set_t cores{};  // of the node, within this process's affinity mask
};

// "0-3,8,10-11" as the kernel writes core lists; anything else: no cores.
cpu_set_t parse_core_list(std::string_view text);

int num_allowed_cores();                    // in the affinity mask of this process
std::vector<NumaNode> usable_numa_nodes();  // those with at least one allowed core
// The node of rank `local_rank` of `num_ranks`: blocks of neighbours share a node.
std::size_t node_of_rank(std::size_t local_rank, std::size_t num_ranks, std::size_t num_nodes);
void bind_to(const NumaNode& node);  // this process; async-signal-safe

}  // namespace wmtp::cli
