#include "wmtp/cli/config_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "wmtp/cli/build_id.h"
#include "wmtp/core/checksum.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::cli {
namespace {

// A rank that cannot even start tells the others, but does not wait long for them.
constexpr std::chrono::seconds kFailureRendezvousTimeout{20};

}  // namespace

RankRun make_run(const comm::LaunchEnv& launch, const config::Config& config) {
  using std::chrono::seconds;
  RankRun run;
  run.launch = launch;
  run.allow_shared_gpu = config.distributed.allow_shared_gpu;
  comm::SessionOptions& options = run.options;
  options.device = choose_device(launch, {std::string(config::name_of(config.runtime.device)),
                                          config.distributed.allow_shared_gpu});
  options.rendezvous.timeout = seconds(config.distributed.rendezvous_timeout_s);
  options.rendezvous.interface = config.distributed.interface.value_or("");
  options.rendezvous.port = static_cast<int>(config.distributed.port.value_or(0));
  options.agreement_timeout = seconds(config.distributed.agreement_timeout_s);
  options.backend = config::name_of(config.distributed.backend);
  options.run_dir = config.runtime.run_dir;
  return run;
}

run::RunContext run_context(const config::Config& config, const comm::LaunchEnv& launch,
                            c10::Device device) {
  return {device,
          launch.rank,
          launch.world,
          rank_memory(config, launch.local_world, device),
          comm::process_environment(),
          launch.local_rank,
          launch.local_world};
}

std::string start_id_of(comm::ProcessGroupSession& group) {
  return group.store().set_if_absent(
      "start-id",
      fmt::format("{:x}-{}", std::chrono::system_clock::now().time_since_epoch().count(),
                  ::getpid()));
}

// "none" is torchrun's word for not telling jobs apart. The token itself is a secret.
std::string run_id_of(const comm::LaunchEnv& launch, const std::string& start_id) {
  const bool named = !launch.run_id.empty() && launch.run_id != "none";
  if (!named && launch.token.empty()) return start_id;
  return sha256_hex(named ? "job " + launch.run_id : "token " + launch.token).substr(0, 16);
}

comm::Facts facts_of(const config::ResolvedConfig& resolved, const comm::LaunchEnv& launch,
                     c10::Device device) {
  comm::Facts facts;
  facts.must_agree["wmtp build"] = build_id();
  for (auto& [key, value] : resolved.flat()) facts.config[key] = value;
  const config::Fsdp& fsdp = resolved.config.distributed.fsdp;
  if (fsdp.sharding_strategy == config::ShardingStrategy::hybrid_shard && !fsdp.shard_group_size)
    facts.must_agree["ranks of a node (distributed.fsdp.shard_group_size: null)"] =
        std::to_string(launch.local_world);
  if (device.is_cuda()) {
    const CudaServices& gpu = cuda_tables().services;
    facts.should_agree["GPU"] = gpu.device_info(device.index()).name;
    facts.should_agree["GPU software"] = gpu.versions();
  }
  return facts;
}

int fail_together(const Session& session, const comm::LaunchEnv& launch, const Error& error) {
  if (launch.world == 1) throw error;
  RankRun run;
  run.launch = launch;
  run.options.rendezvous.timeout = kFailureRendezvousTimeout;
  try {
    return run_as_rank(session, std::move(run),
                       [&error](comm::ProcessGroupSession&) -> int { throw error; });
  } catch (const std::exception&) {
    throw error;  // the others did not come; our own reason is the better one
  }
}

}  // namespace wmtp::cli
