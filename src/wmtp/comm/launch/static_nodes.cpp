#include "wmtp/comm/launch/static_nodes.h"

#include <fmt/format.h>

#include "wmtp/comm/launch/slurm_step.h"

namespace wmtp::comm {
namespace {

constexpr int kMaxNodes = 65'536;

// The nodes of a Slurm step that has one launcher on each; nothing outside of such a step.
std::optional<int> slurm_nodes(EnvReader& env) {
  if (!is_slurm_step(env)) return std::nullopt;
  const auto nodes = env.number("SLURM_STEP_NUM_NODES");
  const auto tasks = env.number("SLURM_STEP_NUM_TASKS");
  if (!nodes || *nodes < 2) return std::nullopt;
  if (tasks && *tasks != *nodes)
    env.refuse(fmt::format("{} launchers on {} nodes", *tasks, *nodes),
               "start one per node (srun --ntasks-per-node=1), or the ranks without `wmtp launch`");
  return nodes;
}

int number_of_nodes(const NodeFlags& flags, EnvReader& env) {
  if (flags.num_nodes) return *flags.num_nodes;
  if (const auto range = env.text("PET_NNODES"); range && range->find(':') != range->npos)
    env.refuse(fmt::format("PET_NNODES={} is a range", *range),
               "`wmtp launch` knows fixed numbers of nodes: give one with --nnodes");
  if (const auto named = env.number("PET_NNODES")) return *named;
  return slurm_nodes(env).value_or(1);
}

void require_alone(const NodeFlags& flags, EnvReader& env) {
  const char* given = flags.node               ? "--node-rank"
                      : !flags.address.empty() ? "--master-addr"
                      : flags.port             ? "--master-port"
                                               : nullptr;
  if (given && !(flags.node == 0 && flags.address.empty() && !flags.port))
    env.refuse(fmt::format("{} is for several nodes", given), "say how many with --nnodes");
}

int own_node(const NodeFlags& flags, EnvReader& env) {
  if (flags.node) return *flags.node;
  if (const auto named = env.number("PET_NODE_RANK")) return *named;
  if (is_slurm_step(env))
    if (const auto named = env.number("SLURM_NODEID")) return *named;
  env.refuse("several nodes, but which of them this is is not known",
             "give --node-rank, 0 to --nnodes - 1");
}

std::string address_of_first(const NodeFlags& flags, EnvReader& env) {
  if (!flags.address.empty()) return flags.address;
  for (const char* name : {"PET_MASTER_ADDR", "MASTER_ADDR"})
    if (const auto named = env.text(name)) return *named;
  if (is_slurm_step(env)) return first_slurm_node(env);
  env.refuse("several nodes, but no address of the first",
             "give --master-addr, as all nodes reach node 0");
}

int port_of_first(const NodeFlags& flags, EnvReader& env) {
  if (flags.port) return *flags.port;
  for (const char* name : {"PET_MASTER_PORT", "MASTER_PORT"})
    if (const auto named = env.number(name)) return *named;
  if (is_slurm_step(env)) return slurm_ports(env).front();
  env.refuse("several nodes, but no port to meet at",
             "give --master-port, the same to all launchers");
}

}  // namespace

StaticNodes find_nodes(const NodeFlags& flags, const EnvLookup& environment) {
  EnvReader env(environment);
  StaticNodes found;
  found.num_nodes = number_of_nodes(flags, env);
  if (found.num_nodes < 1 || found.num_nodes > kMaxNodes)
    env.refuse(fmt::format("{} nodes", found.num_nodes), fmt::format("1 to {}", kMaxNodes));
  if (found.num_nodes == 1) {
    require_alone(flags, env);
    return found;
  }
  found.node = own_node(flags, env);
  if (found.node < 0 || found.node >= found.num_nodes)
    env.refuse(fmt::format("node {} of {}", found.node, found.num_nodes), "nodes count from 0");
  found.address = address_of_first(flags, env);
  found.port = port_of_first(flags, env);
  if (found.port < 1 || found.port > 65'535)
    env.refuse(fmt::format("port {} does not exist", found.port), "1 to 65535");
  return found;
}

std::string rendezvous_of(const StaticNodes& nodes) {
  const bool v6 = nodes.address.find(':') != std::string::npos && !nodes.address.starts_with('[');
  return fmt::format("tcp://{}{}{}:{}", v6 ? "[" : "", nodes.address, v6 ? "]" : "", nodes.port);
}

}  // namespace wmtp::comm
