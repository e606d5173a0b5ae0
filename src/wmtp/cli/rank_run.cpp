#include "wmtp/cli/rank_run.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <iostream>
#include <map>

#include "wmtp/cli/error_file.h"
#include "wmtp/cli/launcher/rank_environment.h"
#include "wmtp/cli/report.h"
#include "wmtp/cli/run_folder.h"
#include "wmtp/cli/versions.h"
#include "wmtp/comm/groups.h"
#include "wmtp/core/log.h"
#include "wmtp/core/printable.h"
#include "wmtp/core/resource_limits.h"
#include "wmtp/core/time.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::cli {
namespace {

// A library that gets no thread ends the program or waits for it for ever, so that they are counted
// beforehand: LibTorch makes two pools of those asked for; ours, Gloo's and the store's come to
// about this many.
constexpr int kOtherThreads = 16;

using comm::Failure;
using comm::ProcessGroupSession;

int gpu_index(const comm::LaunchEnv& launch, int num_visible, bool allow_shared) {
  if (num_visible == 1) return 0;
  if (launch.local_rank < num_visible) return launch.local_rank;
  if (allow_shared) return launch.local_rank % num_visible;
  throw Error(
      ErrorKind::config, "device",
      fmt::format("local rank {} has no GPU: {} are visible", launch.local_rank, num_visible),
      "start at most one rank per GPU");
}

// Rank 0 compares host and GPU of all ranks; NCCL would only hang or crash on a duplicate.
void require_distinct_gpus(const ProcessGroupSession& group, c10::Device device) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string uuid = cuda_tables().services.device_info(device.index()).uuid;
  group.store().set(fmt::format("gpu/{}", group.rank()), fmt::format("{} {}", host.data(), uuid));
  if (group.rank() != 0) return;
  std::map<std::string, int> owners;
  for (int rank = 0; rank < group.world(); ++rank) {
    const std::string gpu =
        group.store().get(fmt::format("gpu/{}", rank), std::chrono::seconds(60));
    const auto [owner, is_first] = owners.emplace(gpu, rank);
    if (!is_first)
      throw Error(ErrorKind::config, "device",
                  fmt::format("ranks {} and {} are on one GPU ({})", owner->second, rank, gpu),
                  "start one rank per GPU, or set distributed.allow_shared_gpu: true and "
                  "distributed.backend: gloo");
  }
}

// Where a run writes how it ended.
struct ExitNote {
  std::filesystem::path run_dir;
  const run::RunProgress* progress = nullptr;
  std::function<void(int, const std::string&)> on_exit;
};

// A start that fails before it comes to the locks writes down its end where no other run lives.
// Rank 0 speaks for all of it, and makes the folder.
void note_early_exit(const ExitNote& note, const LastExit& exit) {
  std::error_code ignored;
  std::filesystem::create_directories(note.run_dir, ignored);
  if (const UniqueFd held = lock_folder_if_free(note.run_dir)) write_last_exit(note.run_dir, exit);
}

void note_exit(int own_rank, const ExitNote& note, LastExit exit) {
  if (note.run_dir.empty() || !note.progress) {
    if (note.on_exit) note.on_exit(exit.code, exit.reason);
    return;
  }
  exit.step = note.progress->step;
  exit.committed_step = note.progress->committed_step;
  const run::FolderOwner owner = note.progress->folder;
  // Any rank of the owner: rank 0 may be the one that died.
  if (owner == run::FolderOwner::this_run) write_last_exit(note.run_dir, exit);
  if (owner == run::FolderOwner::not_known && own_rank == 0) note_early_exit(note, exit);
  if (note.on_exit) note.on_exit(exit.code, exit.reason);
}

// As the record of an error names it. Codes that two kinds share are the commoner one's.
std::string_view kind_of(int code) {
  for (const ErrorKind kind :
       {ErrorKind::config, ErrorKind::data, ErrorKind::io, ErrorKind::comm, ErrorKind::numeric})
    if (static_cast<int>(exit_code(kind)) == code) return name_of(kind);
  return name_of(ErrorKind::internal);
}

// Launchers show the standard output of rank 0 alone, and whoever reads it looks for an error. One
// write, past std::cout, which the main thread may be stuck in.
void tell_cause(const Session& session, int own_rank, const Failure& cause) {
  if (!session.json || own_rank != 0) return;
  const nlohmann::ordered_json record{{"type", "error"},
                                      {"ts", utc_timestamp()},
                                      {"kind", kind_of(cause.code)},
                                      {"code", cause.code},
                                      {"message", printable(cause.message)},
                                      {"hint", ""},
                                      {"where", fmt::format("rank {}", cause.rank)}};
  const std::string line =
      record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDOUT_FILENO, line.data(), line.size());
}

// For the watchdog: the main thread may be stuck in a collective for ever.
std::function<void(const Failure&)> leave_at_once(const Session& session, int own_rank,
                                                  const ExitNote& note) {
  return [&session, own_rank, note](const Failure& failure) {
    log::error("comm", "leaving with code {} (rank {}): {}", failure.code, failure.rank,
               failure.message);
    tell_cause(session, own_rank, failure);
    note_exit(own_rank, note, {failure.code, failure.rank, failure.message});
    write_error_file(failure.rank == own_rank, failure.message, "watchdog");
    ::_exit(failure.code);
  };
}

std::string_view reason_of(ExitCode code) {
  switch (code) {
    case ExitCode::ok:
      return "done";
    case ExitCode::preempted_saved:
      return "stopped on request and saved";
    case ExitCode::preempted_unsaved:
      return "stopped on request, not saved";
    case ExitCode::retry:
      return "done, but not all checkpoints are up";
    default:
      return "";
  }
}

int agree_exit_code(const Session& session, ProcessGroupSession& group, const Error& error,
                    const ExitNote& note) {
  const Failure cause = group.agree_on_failure(error);
  note_exit(group.rank(), note, {cause.code, cause.rank, cause.message});
  if (cause.rank == group.rank()) {
    report(session, error);
  } else {
    log::info("comm", "leaving with code {} of rank {}", cause.code, cause.rank);
    tell_cause(session, group.rank(), cause);
    write_error_file(false, cause.message, "another rank");
  }
  return cause.code;
}

}  // namespace

comm::LaunchEnv discover_launch() {
  return comm::discover(
      comm::process_environment(),
      {num_visible_gpus(num_installed_gpus(), std::getenv("CUDA_VISIBLE_DEVICES"))});
}

c10::Device choose_device(const comm::LaunchEnv& launch, const DeviceRequest& wish) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (wish.device == "cpu") return cpu;
  if (wish.device != "auto" && wish.device != "cuda")
    throw Error(ErrorKind::config, "device",
                fmt::format("device {} is not available in this version", wish.device),
                "use auto, cuda or cpu");
  const std::string why_not = try_load_cuda_plugin();
  if (!why_not.empty() && wish.device == "auto") return cpu;
  if (!why_not.empty())
    throw Error(ErrorKind::config, "device",
                fmt::format("device cuda was asked for, but {}", why_not),
                "use --device cpu, or see `wmtp doctor`");
  const int num_visible = cuda_tables().services.device_count();
  const int index = gpu_index(launch, num_visible, wish.allow_shared_gpu);
  cuda_tables().services.set_device(index);
  return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index)};
}

std::int64_t rank_memory(const config::Config& config, int local_world, c10::Device device) {
  std::int64_t bytes = device.is_cuda()
                           ? cuda_tables().services.device_info(device.index()).total_bytes
                           : ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGE_SIZE) / local_world;
  if (config.runtime.memory_limit_gib)
    bytes =
        std::min(bytes, static_cast<std::int64_t>(*config.runtime.memory_limit_gib * (1 << 30)));
  return bytes;
}

int set_threads(const comm::LaunchEnv& launch, int configured) {
  const int threads = comm::choose_threads(launch, configured, comm::affinity_cores());
  require_threads(2 * threads + kOtherThreads);
  at::set_num_threads(threads);
  return threads;
}

int run_as_rank(const Session& session, RankRun run,
                const std::function<int(ProcessGroupSession&)>& body) {
  const ExitNote note{run.options.run_dir, run.progress, run.on_exit};
  const c10::Device device = run.options.device;
  run.options.leave = leave_at_once(session, run.launch.rank, note);
  if (device.is_cuda()) {
    const std::vector<std::string> notices = comm::prepare_nccl_environment();
    if (run.launch.rank == 0)
      for (const std::string& notice : notices) log::warn("comm", "{}", notice);
    run.options.nccl = cuda_tables().nccl_factory;
  }
  if (run.launch.world > 1) raise_descriptor_limit();
  const std::unique_ptr<ProcessGroupSession> group =
      ProcessGroupSession::start(run.launch, run.options);
  try {
    if (device.is_cuda() && !run.allow_shared_gpu && group->world() > 1)
      require_distinct_gpus(*group, device);
    const int code = body(*group);
    group->finish();
    if (group->rank() == 0)
      note_exit(0, note, {code, 0, std::string(reason_of(static_cast<ExitCode>(code)))});
    return code;
  } catch (const std::exception& thrown) {
    return agree_exit_code(session, *group, as_error(thrown), note);
  }
}

}  // namespace wmtp::cli
