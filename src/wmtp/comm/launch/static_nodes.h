// Which node a `wmtp launch` is on, where one launcher per node makes up a job. Torch-free.
#pragma once
#include <optional>
#include <string>

#include "wmtp/comm/launch/launch_env.h"

namespace wmtp::comm {

struct StaticNodes {
  int num_nodes = 1;
  int node = 0;
  std::string address;  // of node 0, whose rank 0 serves the store; empty on one node
  int port = 0;
};

// What the command line says; the rest comes from the environment.
struct NodeFlags {
  std::optional<int> num_nodes, node, port;  // --nnodes, --node-rank, --master-port
  std::string address;                       // --master-addr
};

// Flags go first, then PET_NNODES, PET_NODE_RANK, PET_MASTER_ADDR and PET_MASTER_PORT, then
// MASTER_ADDR and MASTER_PORT, then a Slurm step of one task per node. Nothing of it: one node.
// Error config names what is missing or contradicts itself, with the variables seen.
StaticNodes find_nodes(const NodeFlags& flags, const EnvLookup& environment);

// tcp://ADDRESS:PORT, with brackets around an IPv6 address.
std::string rendezvous_of(const StaticNodes& nodes);

}  // namespace wmtp::comm
