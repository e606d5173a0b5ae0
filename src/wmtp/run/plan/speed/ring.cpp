#include "wmtp/run/plan/speed/ring.h"

#include <algorithm>

namespace wmtp::run {

LinkModel ring_of(int ranks, const ClusterLinks& links) {
  if (ranks <= links.ranks_per_node) return links.node;
  const double in_node = links.ranks_per_node - 1;
  LinkModel ring = links.network;
  ring.bytes_per_s = std::min(links.node.bytes_per_s, links.network.bytes_per_s);
  ring.latency_s =
      (in_node * links.node.latency_s + links.network.latency_s) / links.ranks_per_node;
  return ring;
}

void set_links(const ClusterLinks& links, StepModel& step) {
  const Sharding& sharding = step.sharding;
  if (sharding.group == 1) {
    step.across = ring_of(sharding.ranks, links);
    return;
  }
  step.inside = ring_of(sharding.group, links);
  if (sharding.ranks <= links.ranks_per_node) return;  // replicas share what the groups have
  // Replicas are on other nodes, and the ranks of a node have a crossing of their own each: they
  // share its cards, with each other and with rings that leave the node.
  if (sharding.group > links.ranks_per_node) {
    step.crossings_on_link = links.ranks_per_node;
    return;
  }
  step.across = links.network;
  step.across->bytes_per_s /= sharding.group;
}

}  // namespace wmtp::run
