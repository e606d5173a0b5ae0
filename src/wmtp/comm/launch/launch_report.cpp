// LaunchEnv in words.
#include <fmt/format.h>

#include "wmtp/comm/launch/launch_env.h"

namespace wmtp::comm {

std::string_view name_of(LaunchSource source) {
  switch (source) {
    case LaunchSource::torchrun:
      return "torchrun";
    case LaunchSource::slurm:
      return "slurm";
    case LaunchSource::openmpi:
      return "openmpi";
    case LaunchSource::pmi:
      return "pmi";
    case LaunchSource::single:
      return "single";
  }
  return "single";
}

namespace {

std::string meeting_place(const LaunchEnv& launch) {
  if (launch.world == 1) return "none needed";
  if (!launch.rendezvous.empty()) return launch.rendezvous;
  if (launch.store_host.empty() || launch.store_ports.empty())
    return "a private folder on this host";
  std::string ports = fmt::format("{}", launch.store_ports.front());
  if (launch.store_ports.size() > 1)
    ports += fmt::format(" (or up to {})", launch.store_ports.back());
  return fmt::format("{}:{}, served by {}", launch.store_host, ports,
                     launch.agent_store ? "torchrun's agent" : "rank 0");
}

}  // namespace

std::vector<std::string> describe(const LaunchEnv& launch) {
  std::vector<std::string> lines{
      fmt::format("launched by    {}", name_of(launch.source)),
      fmt::format("rank           {} of {}", launch.rank, launch.world),
      fmt::format("local rank     {} of {}", launch.local_rank, launch.local_world),
      fmt::format("node           {} of {}", launch.node, launch.nodes),
      fmt::format("meeting place  {}", meeting_place(launch)),
      fmt::format("run token      {}", launch.token.empty() ? "not set" : "set"),
      fmt::format("restart count  {}", launch.restart_count),
  };
  for (const auto& [name, value] : launch.variables)
    lines.push_back(fmt::format("  {}={}", name, value));
  for (const std::string& notice : launch.notices) lines.push_back("notice: " + notice);
  return lines;
}

}  // namespace wmtp::comm
