#include "wmtp/comm/launch/slurm_step.h"

#include "wmtp/comm/launch/node_list.h"
#include "wmtp/core/rng.h"

namespace wmtp::comm {
namespace {

// Slurm's reserved step ids (batch, extern, interactive, pending) lie at and above this.
constexpr std::uint64_t kFirstReservedStep = 0xfffffff0u;
constexpr int kNumPortsTried = 8;

}  // namespace

bool is_slurm_step(EnvReader& env) {
  const auto step = env.text("SLURM_STEP_ID");
  if (!step || step->size() > 10 || step->find_first_not_of("0123456789") != std::string::npos)
    return false;
  return std::stoull(*step) < kFirstReservedStep && env.has("SLURM_PROCID");
}

std::string first_slurm_node(EnvReader& env) {
  const auto nodes = env.has("SLURM_STEP_NODELIST") ? env.text("SLURM_STEP_NODELIST")
                                                    : env.text("SLURM_JOB_NODELIST");
  if (!nodes) env.refuse("a Slurm step without a node list", "set MASTER_ADDR to rank 0's host");
  return expand_node_list(*nodes).front();
}

std::vector<int> slurm_ports(EnvReader& env) {
  if (const auto reserved = env.text("SLURM_STEP_RESV_PORTS")) {
    const std::string first = reserved->substr(0, reserved->find_first_of("-,"));
    if (!first.empty() && first.find_first_not_of("0123456789") == std::string::npos &&
        first.size() < 6)
      return {std::stoi(first)};
  }
  const std::string step = env.text_or("SLURM_JOB_ID", "") + "." + env.text_or("SLURM_STEP_ID", "");
  const int start = static_cast<int>(stream_id("rendezvous port/" + step) % 20'000);
  std::vector<int> ports;
  for (int i = 0; i < kNumPortsTried; ++i) ports.push_back(10'000 + (start + i) % 20'000);
  return ports;
}

}  // namespace wmtp::comm
