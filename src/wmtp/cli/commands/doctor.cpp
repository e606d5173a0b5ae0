#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "wmtp/cli/build_id.h"
#include "wmtp/cli/command.h"
#include "wmtp/cli/config_flags.h"
#include "wmtp/cli/doctor/cluster_exam.h"
#include "wmtp/cli/doctor/gpu_support.h"
#include "wmtp/cli/doctor/machine_checks.h"
#include "wmtp/cli/doctor/mlflow_check.h"
#include "wmtp/cli/doctor/s3_check.h"
#include "wmtp/cli/launcher/rank_environment.h"
#include "wmtp/cli/rank_run.h"
#include "wmtp/cli/report.h"
#include "wmtp/cli/run_folder.h"
#include "wmtp/cli/versions.h"
#include "wmtp/comm/self_test.h"
#include "wmtp/config/yaml/problems.h"
#include "wmtp/core/log.h"
#include "wmtp/core/time.h"
#include "wmtp/models/remote/s3_options.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::cli {
namespace {

struct DoctorFlags {
  ConfigFlags config;
  std::string storage;
  std::string device;
  bool collectives = false, cluster = false, mlflow = false, s3 = false;
  double hold_s = 0;  // tests: stay in collectives that long
};

// What the configuration, if any, says about the things doctor looks at.
struct Wishes {
  DeviceRequest device;
  std::string backend = "auto";
  std::filesystem::path storage = ".";
  comm::RendezvousOptions rendezvous;
  MlflowWishes mlflow;
  config::S3 s3;
};

std::string_view label(Health health) {
  return health == Health::ok ? "OK" : health == Health::warn ? "WARN" : "FAIL";
}

// The driver as NVML tells it, and the GPUs: those that CUDA shows, where it can be asked.
tracking::InstalledGpus gpus_here(const Versions& versions) {
  tracking::InstalledGpus installed = tracking::read_installed_gpus();
  if (!versions.plugin_loaded) return installed;
  const CudaServices& services = cuda_tables().services;
  const int count = services.device_count();
  if (count == 0) return installed;  // an old driver hides them all
  installed.gpus.clear();
  for (int index = 0; index < count; ++index) {
    const GpuInfo gpu = services.device_info(index);
    installed.gpus.push_back({gpu.name, gpu.major, gpu.minor});
  }
  return installed;
}

class Doctor {
 public:
  Doctor(const Session& session, const DoctorFlags& flags) : session_(session), flags_(flags) {}

  int examine() {
    const auto launch = find_launcher();
    const Wishes wishes = read_wishes();
    if (launch && launch->local_rank == 0) look_at_machine(*launch, wishes);
    if (launch && launch->local_rank == 0 && flags_.mlflow) look_at_mlflow(wishes);
    if (launch && launch->local_rank == 0 && flags_.s3) look_at_s3(wishes);
    if (launch && (flags_.collectives || flags_.cluster)) meet_ranks(*launch, wishes);
    show(launch ? launch->rank : 0);
    if (code_ != 0) return code_;
    return any_fail() ? static_cast<int>(ExitCode::config) : 0;
  }

 private:
  std::optional<comm::LaunchEnv> find_launcher() {
    try {
      return discover_launch();
    } catch (const Error& error) {
      checks_.push_back({Health::fail, "launcher", error.fact(), error.hint(), {}});
      return std::nullopt;
    }
  }

  Wishes read_wishes() {
    Wishes wishes;
    wishes.rendezvous.timeout = std::chrono::seconds(60);
    if (!flags_.config.file.empty()) read_config(wishes);
    if (!flags_.device.empty()) wishes.device.device = flags_.device;
    if (!flags_.storage.empty()) wishes.storage = flags_.storage;
    return wishes;
  }

  void read_config(Wishes& wishes) {
    try {
      const config::ResolvedConfig resolved = flags_.config.load();
      const config::Config& config = resolved.config;
      wishes.device = {std::string(config::name_of(config.runtime.device)),
                       config.distributed.allow_shared_gpu};
      wishes.backend = config::name_of(config.distributed.backend);
      wishes.storage = nearest_existing(config.checkpoint.save_dir);
      wishes.mlflow = {config.mlflow.tracking_uri, config.mlflow.experiment};
      wishes.s3 = config.storage.s3;
      wishes.rendezvous.interface = config.distributed.interface.value_or("");
      wishes.rendezvous.port = static_cast<int>(config.distributed.port.value_or(0));
      checks_.push_back({Health::ok, "config",
                         fmt::format("{} {}", config::name_of(config.experiment.stage),
                                     resolved.hash().substr(0, 12)),
                         "", resolved.notices});
    } catch (const Error& error) {
      checks_.push_back({Health::fail, "config", error.fact(), "see `wmtp validate`", {}});
    }
  }

  void look_at_machine(const comm::LaunchEnv& launch, const Wishes& wishes) {
    const Versions versions = find_versions();  // first: it loads the GPU plugin
    checks_.push_back(check_libtorch(versions));
    checks_.push_back(check_gpus(versions, num_installed_gpus()));
    checks_.push_back(check_gpu_support(gpus_here(versions), wishes.device.device == "cpu"));
    if (wishes.device.device == "cuda" && !versions.plugin_loaded)
      checks_.push_back({Health::fail,
                         "device",
                         "cuda is asked for and cannot be used: " + versions.plugin_note,
                         "use --device cpu, or install the GPU parts",
                         {}});
    checks_.push_back(check_cores(launch));
    checks_.push_back(check_memory());
    checks_.push_back(check_limits());
    StorageFinding storage = check_storage(wishes.storage);
    disk_ = storage.speed;
    checks_.push_back(std::move(storage.check));
    checks_.push_back(check_clock());
    checks_.push_back(check_launcher(launch));
  }

  void look_at_mlflow(const Wishes& wishes) {
    const auto env = comm::process_environment();
    MlflowWishes mlflow = wishes.mlflow;
    if (mlflow.uri.empty()) mlflow.uri = env("MLFLOW_TRACKING_URI").value_or("");
    for (Check& check : check_mlflow(mlflow, env)) checks_.push_back(std::move(check));
  }

  void look_at_s3(const Wishes& wishes) {
    const s3::Options options = models::s3_options(wishes.s3, comm::process_environment());
    for (Check& check : check_s3(options)) checks_.push_back(std::move(check));
  }

  void meet_ranks(const comm::LaunchEnv& launch, const Wishes& wishes) {
    RankRun run;
    run.launch = launch;
    run.allow_shared_gpu = wishes.device.allow_shared_gpu;
    run.options.rendezvous = wishes.rendezvous;
    run.options.backend = wishes.backend;
    try {
      run.options.device = choose_device(launch, wishes.device);
    } catch (const Error& error) {
      checks_.push_back({Health::fail,
                         flags_.cluster ? "cluster" : "collectives",
                         error.fact(),
                         error.hint(),
                         {}});
      return;
    }
    set_threads(launch, 0);
    const c10::Device device = run.options.device;
    code_ = run_as_rank(session_, std::move(run), [&](comm::ProcessGroupSession& group) {
      comm::Facts facts;
      // With --cluster builds may differ: it tells which.
      if (!flags_.cluster) facts.must_agree["wmtp build"] = build_id();
      group.agree(std::move(facts));
      group.connect();
      if (flags_.collectives) try_collectives(group);
      hold(group);
      return flags_.cluster ? look_at_cluster(group, device) : 0;
    });
  }

  void try_collectives(comm::ProcessGroupSession& group) {
    const comm::SelfTestResult result = comm::run_collective_self_test(group);
    checks_.push_back({Health::ok, "collectives",
                       fmt::format("{} ranks over {}, {} checks right, {}", result.world,
                                   result.backend, result.num_checks, result.where),
                       "", result.lines()});
  }

  // COLLECTIVE. A finding of one rank, also of its own machine, is the code of all.
  int look_at_cluster(comm::ProcessGroupSession& group, c10::Device device) {
    const ClusterFindings found = examine_cluster(group, device, disk_);
    if (group.rank() == 0) {
      for (Check& check : check_cluster(found)) checks_.push_back(std::move(check));
      cluster_ = to_json(found);
    }
    return any_rank(group, any_fail()) ? static_cast<int>(ExitCode::config) : 0;
  }

  bool any_fail() const {
    return std::any_of(checks_.begin(), checks_.end(),
                       [](const Check& check) { return check.health == Health::fail; });
  }

  // COLLECTIVE. Rank 0's clock decides, so that all ranks stop after the same collective.
  void hold(comm::ProcessGroupSession& group) const {
    if (flags_.hold_s <= 0) return;
    log::info("doctor", "holding rank {} (pid {})", group.rank(), ::getpid());
    const auto start = Clock::now();
    at::Tensor is_over = at::full({1}, 0.0, group.gather_group().device());
    while (is_over.item<float>() == 0) {
      is_over.fill_(group.rank() == 0 && seconds_since(start) > flags_.hold_s ? 1.0 : 0.0);
      group.gather_group().all_reduce(is_over, "hold").wait();
    }
  }

  void show(int rank) const {
    if (session_.json && rank == 0) return show_json();
    for (const Check& check : checks_)
      if (rank == 0 || check.health != Health::ok) show_line(check, rank);
  }

  void show_json() const {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Check& check : checks_)
      list.push_back({{"status", label(check.health)},
                      {"name", check.name},
                      {"fact", check.fact},
                      {"fix", check.fix},
                      {"details", check.details}});
    nlohmann::ordered_json result{{"checks", list}};
    if (!cluster_.is_null()) result["cluster"] = cluster_;
    emit_json("result", result);
  }

  void show_line(const Check& check, int rank) const {
    const bool color = session_.color_on(STDOUT_FILENO);
    const int shade = check.health == Health::ok ? 32 : check.health == Health::warn ? 33 : 31;
    std::string mark = fmt::format("{:<4}", label(check.health));
    if (color) mark = fmt::format("\x1b[{}m{}\x1b[0m", shade, mark);
    std::string text = fmt::format("{} {:<12} {}\n", mark, check.name, check.fact);
    if (!check.fix.empty()) text += fmt::format("     {:<12} fix: {}\n", "", check.fix);
    if (!session_.quiet)
      for (const std::string& line : check.details)
        text += fmt::format("     {:<12} {}\n", "", line);
    (rank == 0 ? std::cout : std::cerr) << text << std::flush;
  }

  const Session& session_;
  const DoctorFlags& flags_;
  std::vector<Check> checks_;
  std::optional<DiskSpeed> disk_;
  nlohmann::ordered_json cluster_;  // null: it was not looked at
  int code_ = 0;
};

}  // namespace

void add_doctor(CLI::App& app, Session& session) {
  CLI::App* command =
      app.add_subcommand("doctor", "Check this machine, with a fix for what is wrong");
  command->group(kProgramGroup);
  command->footer(
      "  wmtp doctor\n"
      "  wmtp doctor --storage /data/checkpoints --mlflow --s3 --config run.yaml\n"
      "  wmtp launch --nproc 2 -- doctor --collectives --cluster");
  const auto flags = std::make_shared<DoctorFlags>();
  flags->config.add_to(*command, false);
  command->add_option("--storage", flags->storage, "Folder to measure (save_dir, else this one)")
      ->type_name("DIR");
  command->add_option("--device", flags->device, "Device of --collectives and --cluster")
      ->type_name("auto|cuda|cpu");
  command->add_flag("--collectives", flags->collectives,
                    "All ranks: test and time the collectives");
  command->add_flag("--cluster", flags->cluster,
                    "All ranks: speed of the network and its pairs, disks, clocks, versions, GPUs");
  command->add_flag("--mlflow", flags->mlflow, "Try the way to the MLflow server; changes nothing");
  command->add_flag("--s3", flags->s3,
                    "Try the way to storage.s3; writes one small object, and removes it");
  command->add_option("--hold", flags->hold_s, "Stay in collectives that many seconds")->group("");
  command->callback([&session, flags] {
    session.run = [&session, flags] { return Doctor(session, *flags).examine(); };
  });
}

}  // namespace wmtp::cli
