#include "wmtp/cli/launcher/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>

namespace wmtp::cli {
namespace {

constexpr int kMaxNodes = 64;  // one word of the kernel's node mask

cpu_set_t allowed_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  ::sched_getaffinity(0, sizeof mask, &mask);
  return mask;
}

}  // namespace

cpu_set_t parse_core_list(std::string_view text) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (at < end) {
    int first = 0;
    auto [after, status] = std::from_chars(at, end, first);
    if (status != std::errc{} || first < 0) break;
    int last = first;
    if (after < end && *after == '-') {
      const auto range = std::from_chars(after + 1, end, last);
      if (range.ec != std::errc{}) break;
      after = range.ptr;
    }
    for (int core = first; core <= std::min(last, CPU_SETSIZE - 1); ++core) CPU_SET(core, &cores);
    at = after < end && *after == ',' ? after + 1 : end;
  }
  return cores;
}

int num_allowed_cores() {
  const cpu_set_t mask = allowed_cores();
  return std::max(CPU_COUNT(&mask), 1);
}

std::vector<NumaNode> usable_numa_nodes() {
  std::vector<NumaNode> nodes;
  const cpu_set_t allowed = allowed_cores();
  for (int id = 0; id < kMaxNodes; ++id) {
    std::ifstream file("/sys/devices/system/node/node" + std::to_string(id) + "/cpulist");
    std::string text;
    if (!std::getline(file, text)) continue;
    NumaNode node{id, parse_core_list(text)};
    CPU_AND(&node.cores, &node.cores, &allowed);
    if (CPU_COUNT(&node.cores) > 0) nodes.push_back(node);
  }
  return nodes;
}

std::size_t node_of_rank(std::size_t local_rank, std::size_t num_ranks, std::size_t num_nodes) {
  return local_rank * num_nodes / num_ranks;
}

void bind_to(const NumaNode& node) {
  ::sched_setaffinity(0, sizeof node.cores, &node.cores);
  const unsigned long node_mask = 1UL << node.id;
  // Preferred, not bound: a full node borrows from its neighbour instead of ending in the OOM
  // killer.
  ::syscall(SYS_set_mempolicy, MPOL_PREFERRED, &node_mask, kMaxNodes + 1);
}

}  // namespace wmtp::cli
