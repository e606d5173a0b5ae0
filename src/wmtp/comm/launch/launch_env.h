// Who am I: what an existing launcher (torchrun, Slurm, Open MPI, PMI, Kubernetes, `wmtp launch`)
// put into the environment, read once. Torch-free. With cli/, the only place that reads the
// environment.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace wmtp::comm {

using EnvLookup = std::function<std::optional<std::string>(const std::string& name)>;
EnvLookup process_environment();  // getenv
EnvLookup environment_of(std::map<std::string, std::string> table);

enum class LaunchSource { torchrun, slurm, openmpi, pmi, single };
std::string_view name_of(LaunchSource source);

struct LaunchEnv {
  LaunchSource source = LaunchSource::single;
  int rank = 0, world = 1;
  int local_rank = 0, local_world = 1;
  int node = 0, nodes = 1;

  std::string rendezvous;        // WMTP_RENDEZVOUS: tcp://HOST:PORT or file://DIR, or empty
  std::string store_host;        // empty: unknown
  std::vector<int> store_ports;  // to be tried in this order; empty: unknown
  bool agent_store = false;      // torchrun's agent serves at store_host:store_ports[0]

  std::string token;   // WMTP_RUN_TOKEN; never logged
  std::string run_id;  // the launcher's id of the job; may be empty
  // What knows a run's lock again: the id that every start of one job has (Slurm's job number, else
  // torchrun's --rdzv-id), or nothing.
  std::string job;
  int restart_count = 0, max_restarts = 0;
  int job_restarts = 0;            // how often Slurm has put the job back into the queue
  std::string error_file;          // TORCHELASTIC_ERROR_FILE, or empty
  std::string torch_version_hint;  // PYTORCH_VERSION where the image sets it
  std::string gloo_interface;      // first name of GLOO_SOCKET_IFNAME, or empty
  std::optional<int> omp_threads;  // OMP_NUM_THREADS
  bool kubernetes_job = false;     // PyTorchJob: one process per pod
  bool keep_torch_log = false;     // TORCH_CPP_LOG_LEVEL is set
  bool torchelastic = false;       // TORCHELASTIC_RUN_ID is set

  std::vector<std::string> notices;              // for the user, in words
  std::map<std::string, std::string> variables;  // those seen (no secrets), for `doctor` and errors
};

struct DiscoveryFacts {
  int visible_gpus = 0;  // for the PyTorchJob check
};

// The first source that matches wins: torchrun, Slurm step, Open MPI, PMI, single. Error config
// with the variables seen when they contradict each other.
LaunchEnv discover(const EnvLookup& env, const DiscoveryFacts& facts = {});

// One line per variable and field, as `wmtp doctor` prints them.
std::vector<std::string> describe(const LaunchEnv& launch);

// `configured` > 0 wins; else OMP_NUM_THREADS, unless it is torchrun's exported 1; else cores /
// local world, at least 1.
int choose_threads(const LaunchEnv& launch, int configured, int affinity_cores);
int affinity_cores();  // cores this process may run on

// Sets TORCH_NCCL_ASYNC_ERROR_HANDLING=2 (errors reach wmtp instead of aborting the process) and
// drops TORCH_NCCL_BLOCKING_WAIT. Returns a notice for each that was set otherwise. REQUIRES:
// before any communicator and any thread.
std::vector<std::string> prepare_nccl_environment();

}  // namespace wmtp::comm
