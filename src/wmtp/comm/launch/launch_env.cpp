#include "wmtp/comm/launch/launch_env.h"

#include <fmt/format.h>
#include <sched.h>
#include <stdlib.h>

#include <algorithm>
#include <thread>

#include "wmtp/comm/launch/env_reader.h"
#include "wmtp/comm/launch/node_list.h"
#include "wmtp/comm/launch/slurm_step.h"
#include "wmtp/core/error.h"

namespace wmtp::comm {
namespace {

constexpr const char* kAddressHint =
    "pass MASTER_ADDR and MASTER_PORT on to all ranks, or set WMTP_RENDEZVOUS=tcp://HOST:PORT "
    "(rank 0 "
    "serves there) or file://DIR (a shared folder)";

void read_address(EnvReader& env, LaunchEnv& launch) {
  launch.store_host = env.text_or("MASTER_ADDR", "");
  if (const auto port = env.number("MASTER_PORT")) launch.store_ports = {*port};
}

bool has_address(const LaunchEnv& launch) {
  return !launch.rendezvous.empty() || (!launch.store_host.empty() && !launch.store_ports.empty());
}

void set_nodes(LaunchEnv& launch) {
  const int per_node = std::max(1, launch.local_world);
  launch.nodes = (launch.world + per_node - 1) / per_node;
  launch.node = launch.rank / per_node;
}

void check_pod(EnvReader& env, LaunchEnv& launch, const DiscoveryFacts& facts) {
  launch.kubernetes_job =
      !env.has("LOCAL_RANK") && (env.has("PET_NODE_RANK") || env.has("PET_NNODES"));
  if (!launch.kubernetes_job) return;
  const std::string per_pod = env.text_or("PET_NPROC_PER_NODE", "1");
  const bool many = per_pod.find_first_not_of("0123456789") == std::string::npos &&
                    per_pod != "0" && per_pod != "1";
  if (many || facts.visible_gpus > 1)
    env.refuse(
        fmt::format("a PyTorchJob pod started one process (RANK counts pods) but {} are meant",
                    many ? per_pod : fmt::format("{} GPUs", facts.visible_gpus)),
        "start `torchrun --no-python wmtp ...` or `wmtp launch --nproc auto -- ...` in the pod");
}

void read_torchrun(EnvReader& env, LaunchEnv& launch, const DiscoveryFacts& facts) {
  launch.source = LaunchSource::torchrun;
  launch.rank = *env.number("RANK");
  launch.world = *env.number("WORLD_SIZE");
  launch.local_rank = env.number_or("LOCAL_RANK", 0);
  launch.local_world = env.number_or("LOCAL_WORLD_SIZE", std::max(1, launch.local_rank + 1));
  set_nodes(launch);
  launch.nodes = env.number_or("GROUP_WORLD_SIZE", launch.nodes);
  launch.node = env.number_or("GROUP_RANK", launch.node);
  read_address(env, launch);
  launch.agent_store = env.text_or("TORCHELASTIC_USE_AGENT_STORE", "") == "True";
  check_pod(env, launch, facts);
  if (launch.world > 1 && !has_address(launch))
    env.refuse(fmt::format("{} ranks, but no address to meet at", launch.world), kAddressHint);
}

int slurm_local_world(EnvReader& env, const LaunchEnv& launch) {
  const auto list = env.text("SLURM_STEP_TASKS_PER_NODE");
  if (!list) return std::max(launch.local_rank + 1, launch.nodes == 1 ? launch.world : 1);
  const std::vector<int> tasks = expand_tasks_per_node(*list);
  if (launch.node >= static_cast<int>(tasks.size()))
    env.refuse(fmt::format("SLURM_NODEID {} is not among the {} nodes of the step", launch.node,
                           tasks.size()),
               "");
  return tasks[static_cast<std::size_t>(launch.node)];
}

void read_slurm(EnvReader& env, LaunchEnv& launch) {
  launch.source = LaunchSource::slurm;
  launch.rank = *env.number("SLURM_PROCID");
  const auto world = env.has("SLURM_STEP_NUM_TASKS") ? env.number("SLURM_STEP_NUM_TASKS")
                                                     : env.number("SLURM_NTASKS");
  if (!world) env.refuse("a Slurm step without SLURM_STEP_NUM_TASKS", "start with srun");
  launch.world = *world;
  launch.local_rank = env.number_or("SLURM_LOCALID", 0);
  launch.nodes = env.number_or("SLURM_STEP_NUM_NODES", env.number_or("SLURM_NNODES", 1));
  launch.node = env.number_or("SLURM_NODEID", 0);
  launch.local_world = slurm_local_world(env, launch);
  read_address(env, launch);
  if (launch.store_host.empty() && launch.nodes == 1) launch.store_host = "127.0.0.1";
  if (launch.store_host.empty()) launch.store_host = first_slurm_node(env);
  if (launch.store_ports.empty()) launch.store_ports = slurm_ports(env);
  if (const auto other = env.number("WORLD_SIZE"); other && *other != launch.world)
    launch.notices.push_back(
        fmt::format("WORLD_SIZE={} is ignored: the Slurm step has {} tasks", *other, launch.world));
}

void read_mpi(EnvReader& env, LaunchEnv& launch) {
  const bool open_mpi = env.has("OMPI_COMM_WORLD_RANK");
  launch.source = open_mpi ? LaunchSource::openmpi : LaunchSource::pmi;
  const std::string prefix = open_mpi ? "OMPI_COMM_WORLD_" : "PMI_";
  launch.rank = *env.number(prefix + "RANK");
  const auto world = env.number(prefix + "SIZE");
  if (!world) env.refuse(prefix + "RANK is set, " + prefix + "SIZE is not", "start with mpirun");
  launch.world = *world;
  launch.local_rank = env.number_or(open_mpi ? "OMPI_COMM_WORLD_LOCAL_RANK" : "MPI_LOCALRANKID", 0);
  launch.local_world = env.number_or(open_mpi ? "OMPI_COMM_WORLD_LOCAL_SIZE" : "MPI_LOCALNRANKS",
                                     launch.local_rank + 1);
  set_nodes(launch);
  read_address(env, launch);
  if (launch.world > 1 && launch.local_world != launch.world && !has_address(launch))
    env.refuse(
        fmt::format("{} MPI ranks on several hosts, but no address to meet at", launch.world),
        kAddressHint);
}

// mpirun's daemons run under srun, one per node: then the SLURM_* of a rank are its daemon's.
bool mpirun_inside_slurm(EnvReader& env) {
  const auto size =
      env.has("OMPI_COMM_WORLD_SIZE") ? env.number("OMPI_COMM_WORLD_SIZE") : env.number("PMI_SIZE");
  return size && size != env.number("SLURM_STEP_NUM_TASKS");
}

void read_single(EnvReader& env, LaunchEnv& launch) {
  launch.source = LaunchSource::single;
  if (env.has("SLURM_JOB_ID") && env.number_or("SLURM_NTASKS", 1) > 1)
    launch.notices.push_back(fmt::format(
        "inside a Slurm allocation of {} tasks but not in a step: running as one process; "
        "srun was probably meant",
        *env.text("SLURM_NTASKS")));
}

void read_source(EnvReader& env, LaunchEnv& launch, const DiscoveryFacts& facts) {
  const bool rank = env.has("RANK"), world = env.has("WORLD_SIZE");
  if (rank && !world) env.refuse("RANK is set, WORLD_SIZE is not", "set both or neither");
  if (rank) return read_torchrun(env, launch, facts);
  if (is_slurm_step(env) && !mpirun_inside_slurm(env)) return read_slurm(env, launch);
  if (env.has("OMPI_COMM_WORLD_RANK") || env.has("PMI_RANK")) return read_mpi(env, launch);
  read_single(env, launch);
}

std::string run_id(EnvReader& env, const LaunchEnv& launch) {
  if (const auto id = env.text("TORCHELASTIC_RUN_ID")) return *id;
  if (launch.source == LaunchSource::slurm)
    return env.text_or("SLURM_JOB_ID", "") + "." + env.text_or("SLURM_STEP_ID", "");
  if (launch.source == LaunchSource::openmpi) return env.text_or("PMIX_NAMESPACE", "");
  return "";
}

// A PyTorchJob's uid is in no variable, and pods cannot ask for it: with an elastic policy its
// rdzvId is, as PET_RDZV_ID. "none" is torchrun's word for an id that nobody gave.
std::string job_id(EnvReader& env) {
  for (const char* name : {"SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "PET_RDZV_ID"})
    if (const auto id = env.text(name); id && *id != "none") return *id;
  return "";
}

void read_common(EnvReader& env, const EnvLookup& lookup, LaunchEnv& launch) {
  launch.run_id = run_id(env, launch);
  launch.job = job_id(env);
  launch.job_restarts = env.number_or("SLURM_RESTART_COUNT", 0);
  launch.keep_torch_log = env.has("TORCH_CPP_LOG_LEVEL");
  launch.torchelastic = env.has("TORCHELASTIC_RUN_ID");
  launch.restart_count =
      env.number_or("TORCHELASTIC_RESTART_COUNT",
                    env.number_or("WMTP_RESTART_COUNT", env.number_or("SLURM_RESTART_COUNT", 0)));
  launch.max_restarts = env.number_or("TORCHELASTIC_MAX_RESTARTS", 0);
  launch.error_file = env.text_or("TORCHELASTIC_ERROR_FILE", "");
  launch.torch_version_hint = env.text_or("PYTORCH_VERSION", "");
  const std::string names = env.text_or("GLOO_SOCKET_IFNAME", "");
  launch.gloo_interface = names.substr(0, names.find(','));
  const std::string omp = env.text_or("OMP_NUM_THREADS", "");  // may be a list: "4,2"
  if (!omp.empty() && omp.size() < 6 && omp.find_first_not_of("0123456789") == std::string::npos)
    launch.omp_threads = std::stoi(omp);
  launch.token = lookup("WMTP_RUN_TOKEN").value_or("");
  if (!launch.token.empty() && (launch.token.size() < 16 || launch.token.size() > 256))
    env.refuse(
        fmt::format("WMTP_RUN_TOKEN has {} characters, 16 to 256 are wanted", launch.token.size()),
        "make one with: od -An -N16 -tx1 /dev/urandom | tr -d ' \\n'");
}

void check_numbers(const EnvReader& env, const LaunchEnv& launch) {
  if (launch.world < 1) env.refuse("a world of 0 ranks", "");
  if (launch.rank >= launch.world)
    env.refuse(fmt::format("rank {} in a world of {}", launch.rank, launch.world),
               "ranks count from 0");
  if (launch.local_rank >= launch.local_world)
    env.refuse(
        fmt::format("local rank {} of {} on this host", launch.local_rank, launch.local_world),
        "local ranks count from 0");
  if (launch.local_world > launch.world)
    env.refuse(
        fmt::format("{} ranks on this host, {} in the world", launch.local_world, launch.world),
        "");
  for (const int port : launch.store_ports)
    if (port < 1 || port > 65'535) env.refuse(fmt::format("port {} does not exist", port), "");
}

}  // namespace

EnvLookup process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = ::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

EnvLookup environment_of(std::map<std::string, std::string> table) {
  return [table = std::move(table)](const std::string& name) -> std::optional<std::string> {
    const auto found = table.find(name);
    return found == table.end() ? std::nullopt : std::optional(found->second);
  };
}

LaunchEnv discover(const EnvLookup& lookup, const DiscoveryFacts& facts) {
  EnvReader env(lookup);
  LaunchEnv launch;
  launch.rendezvous = env.text_or("WMTP_RENDEZVOUS", "");
  read_source(env, launch, facts);
  read_common(env, lookup, launch);
  check_numbers(env, launch);
  launch.variables = env.seen();
  return launch;
}

int choose_threads(const LaunchEnv& launch, int configured, int cores) {
  if (configured > 0) return configured;
  const bool from_agent = launch.torchelastic && launch.omp_threads == 1;
  if (launch.omp_threads && *launch.omp_threads > 0 && !from_agent) return *launch.omp_threads;
  return std::max(1, cores / std::max(1, launch.local_world));
}

int affinity_cores() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

std::vector<std::string> prepare_nccl_environment() {
  constexpr const char *kHandling = "TORCH_NCCL_ASYNC_ERROR_HANDLING",
                       *kBlocking = "TORCH_NCCL_BLOCKING_WAIT";
  const EnvLookup environment = process_environment();
  std::vector<std::string> notices;
  if (const auto found = environment(kHandling); found && *found != "2")
    notices.push_back(
        fmt::format("{}={} is overwritten with 2: errors of NCCL are reported by the watchdog",
                    kHandling, *found));
  if (const auto found = environment(kBlocking); found && *found != "0")
    notices.push_back(
        fmt::format("{}={} is dropped: distributed.step_timeout_s bounds how long a collective may "
                    "take",
                    kBlocking, *found));
  ::setenv(kHandling, "2", 1);
  ::unsetenv(kBlocking);
  return notices;
}

}  // namespace wmtp::comm
