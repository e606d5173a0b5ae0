#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <numeric>
#include <span>

#include "wmtp/checkpoint/run_lock.h"
#include "wmtp/cli/build_info.h"
#include "wmtp/cli/commands/bench.h"
#include "wmtp/cli/rank_run.h"
#include "wmtp/core/error.h"
#include "wmtp/core/time.h"
#include "wmtp/model/hf_config.h"
#include "wmtp/model/presets.h"
#include "wmtp/models/synthetic_batch.h"
#include "wmtp/run/checkpoints/checkpointer.h"
#include "wmtp/storage/descriptor.h"
#include "wmtp/tensor/host_memory.h"
#include "wmtp/training/assemble.h"
#include "wmtp/training/objectives/baseline.h"

namespace wmtp::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBenchModel = "bench";

struct CheckpointFlags {
  std::string preset = "small", out, device = "cpu";
  int rounds = 5, turns = 3, steps = 40, every = 40, batch = 1, seq = 128, threads = 0;
};

// What a program without checksums, votes or a manifest would do.
void plain_write(const fs::path& path, std::span<const char> bytes) {
  constexpr std::size_t kPiece = std::size_t{8} << 20;
  const storage::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  while (file && !bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), std::min(kPiece, bytes.size()));
    if (written <= 0) break;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  if (!bytes.empty() || ::fsync(file.get()) != 0)
    throw Error(ErrorKind::io, "bench",
                fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

struct SaveTimes {
  std::vector<double> memcpy_s, blocked_s, plain_s, save_s, writer_s;
  std::vector<double> calm_s, saving_s;  // of each turn
  int num_saves = 0, num_left_out = 0;
  std::size_t bytes = 0;

  double slowdown() const { return sum(saving_s) / sum(calm_s) - 1; }
  double lost_s_per_save() const { return (sum(saving_s) - sum(calm_s)) / num_saves; }
  static double sum(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
  }
};

class Bench {
 public:
  Bench(const CheckpointFlags& flags, comm::ProcessGroupSession& group, c10::Device device)
      : flags_(flags),
        config_(model::preset(flags.preset)),
        model_(options(device), {&group.gather_group(), &group.reduce_group()}),
        lock_(flags.out, kBenchModel, checkpoint::this_process(run_id())),
        checkpointer_(site(), group) {
    model_.runtime().fill(models::random_weights(config_, 0));
    step();  // moments that are not zero
  }

  SaveTimes run() {
    SaveTimes measured;
    time_save();  // allocates the arena
    copy_state();
    measured.bytes = source_.size();
    std::vector<char> target(source_.size(), 2);
    for (int i = 0; i < flags_.rounds; ++i) {
      const auto start = Clock::now();
      std::memcpy(target.data(), source_.data(), source_.size());
      measured.memcpy_s.push_back(seconds_since(start));
      for (const bool plain : {i % 2 == 0, i % 2 != 0})
        if (plain)
          measured.plain_s.push_back(time_plain());
        else
          add(time_save(), measured);
    }
    for (int turn = 0; turn < flags_.turns && flags_.steps > 0; ++turn)
      for (const bool saving : {turn % 2 != 0, turn % 2 == 0}) run_steps(saving, measured);
    return measured;
  }

 private:
  training::AssembleOptions options(c10::Device device) const {
    training::AssembleOptions options;
    options.model = config_;
    options.objective = training::make_baseline;
    options.parallel.device = device;
    options.groups.groups = {{.name = "policy", .learning_rate = 1e-5, .weight_decay = 0.01}};
    return options;
  }

  static std::string run_id() { return fmt::format("bench-{}", ::getpid()); }

  run::CheckpointSite site() const {
    run::CheckpointSite site;
    site.save_dir = flags_.out;
    site.model = kBenchModel;
    site.run_id = site.start_id = run_id();
    site.config_yaml = "{}\n";
    site.model_config = model::hf_config_text(config_, "float32");
    site.version = kVersion;
    site.strategy = "FULL_SHARD";
    site.keep = 2;
    return site;
  }

  // Both sides write the same bytes in as many files, onto a disk that has nothing else to do.
  void copy_state() {
    for (const checkpoint::Part part : {checkpoint::Part::model, checkpoint::Part::optim}) {
      for (const run::StatePiece& piece : run::state_pieces(model_, true)) {
        if (piece.part != part) continue;
        const Tensor host = piece.values.contiguous().cpu();
        const auto* bytes = static_cast<const char*>(host.const_data_ptr());
        source_.insert(source_.end(), bytes, bytes + host.nbytes());
      }
      if (part == checkpoint::Part::model) model_bytes_ = source_.size();
    }
  }
  void settle_disk() const {
    const storage::Descriptor folder(::open(flags_.out.c_str(), O_RDONLY | O_CLOEXEC));
    ::syncfs(folder.get());
  }

  double time_plain() {
    const std::span<const char> all(source_);
    const fs::path folder = flags_.out;
    settle_disk();
    const auto start = Clock::now();
    plain_write(folder / "plain-model", all.first(model_bytes_));
    plain_write(folder / "plain-optim", all.subspan(model_bytes_));
    const double seconds = seconds_since(start);
    fs::remove(folder / "plain-model");
    fs::remove(folder / "plain-optim");
    return seconds;
  }

  struct TimedSave {
    double blocked_s = 0, committed_s = 0, writer_s = 0;
  };
  TimedSave time_save() {
    settle_disk();
    TimedSave timed;
    const auto start = Clock::now();
    begin_save();
    timed.blocked_s = seconds_since(start);
    checkpointer_.wait();
    timed.writer_s = seconds_since(start);
    timed.committed_s = require_saved();
    return timed;
  }
  static void add(const TimedSave& timed, SaveTimes& measured) {
    measured.blocked_s.push_back(timed.blocked_s);
    measured.save_s.push_back(timed.committed_s);
    measured.writer_s.push_back(timed.writer_s);
  }

  bool begin_save() {
    if (!checkpointer_.is_idle()) return false;
    run::SavedState state;
    state.train.step = ++num_saves_;
    checkpointer_.save(model_, state, {}, /*wait=*/false);
    return true;
  }
  // How long the last one took until it was committed.
  double require_saved() {
    double seconds = 0;
    for (const run::SaveOutcome& outcome : checkpointer_.outcomes()) {
      if (!outcome.saved) throw Error(ErrorKind::io, "bench", outcome.error);
      seconds = outcome.seconds;
    }
    return seconds;
  }

  void step() {
    const int heads = static_cast<int>(config_.n_future);
    const auto batch =
        models::synthetic_batch({flags_.batch, flags_.seq, config_.vocab_size, false}, 1,
                                static_cast<std::uint64_t>(step_++));
    training::StepInput input;
    input.facts.head_targets = models::count_targets(batch.view(), heads);
    input.micro_batches.push_back(models::upload_tokens(batch.view(), heads, model_.inv_freq()));
    model_.step().run(std::move(input)).read();
  }

  // What a save takes of the processor from the steps beside it counts as much as the wait.
  void run_steps(bool saving, SaveTimes& measured) {
    settle_disk();
    const auto start = Clock::now();
    for (int i = 0; i < flags_.steps; ++i) {
      if (saving && i % flags_.every == 0)
        ++(begin_save() ? measured.num_saves : measured.num_left_out);
      step();
    }
    (saving ? measured.saving_s : measured.calm_s).push_back(seconds_since(start));
    checkpointer_.wait();
    require_saved();
  }

  CheckpointFlags flags_;
  model::ModelConfig config_;
  training::TrainableModel model_;
  checkpoint::RunLock lock_;
  run::Checkpointer checkpointer_;
  std::vector<char> source_;  // the state; its first model_bytes_ are the weights
  std::size_t model_bytes_ = 0;
  std::int64_t num_saves_ = 0;
  int step_ = 0;
};

void show_json(const CheckpointFlags& flags, const SaveTimes& measured) {
  nlohmann::ordered_json fields{{"preset", flags.preset},        {"bytes", measured.bytes},
                                {"memcpy_s", measured.memcpy_s}, {"blocked_s", measured.blocked_s},
                                {"plain_s", measured.plain_s},   {"save_s", measured.save_s},
                                {"writer_s", measured.writer_s}};
  if (flags.steps > 0)
    fields.update({{"calm_s", measured.calm_s},
                   {"saving_s", measured.saving_s},
                   {"saves", measured.num_saves},
                   {"saves_left_out", measured.num_left_out},
                   {"slowdown", measured.slowdown()},
                   {"lost_s_per_save", measured.lost_s_per_save()}});
  emit_json("result", fields);
}

void show_saves(const CheckpointFlags& flags, const SaveTimes& measured, const Session& session) {
  if (session.json) return show_json(flags, measured);
  const double megabytes = static_cast<double>(measured.bytes) / 1e6;
  const double copy_s = median(measured.memcpy_s), blocked_s = median(measured.blocked_s);
  const double plain_s = median(measured.plain_s), save_s = median(measured.save_s);
  std::cout << fmt::format(
      "{:.0f} MB of state\n"
      "training waits {:.3f} s for a save, memcpy of as much {:.3f} s: {:.2f} times\n"
      "save {:.2f} s ({:.0f} MB/s), plain write and fsync {:.2f} s ({:.0f} MB/s): {:.2f} of its "
      "speed\n",
      megabytes, blocked_s, copy_s, blocked_s / copy_s, save_s, megabytes / save_s, plain_s,
      megabytes / plain_s, plain_s / save_s);
  if (flags.steps > 0)
    std::cout << fmt::format(
        "{} steps with {} saves ({} left out): {:+.1f} %, {:.2f} s of training a save\n",
        flags.turns * flags.steps, measured.num_saves, measured.num_left_out,
        measured.slowdown() * 100, measured.lost_s_per_save());
}

int bench_checkpoint(const Session& session, const CheckpointFlags& flags) {
  keep_freed_host_memory();
  RankRun run;
  run.launch = discover_launch();
  run.options.device = choose_device(run.launch, {flags.device, false});
  set_threads(run.launch, flags.threads);
  const c10::Device device = run.options.device;
  return run_as_rank(session, std::move(run), [&](comm::ProcessGroupSession& group) {
    if (group.world() > 1)
      throw Error(ErrorKind::config, "bench", "bench checkpoint runs on one rank");
    group.connect();
    show_saves(flags, Bench(flags, group, device).run(), session);
    return 0;
  });
}

}  // namespace

void add_bench_checkpoint(CLI::App& bench, Session& session) {
  CLI::App* command = bench.add_subcommand(
      "checkpoint", "Saves against memcpy and plain writes, and what they cost a run");
  command->footer(
      "  wmtp bench checkpoint --out /scratch/bench --preset small --steps 40 --every 40");
  const auto flags = std::make_shared<CheckpointFlags>();
  command->add_option("--out", flags->out, "Folder to write to; two checkpoints stay in it")
      ->required()
      ->type_name("D");
  command->add_option("--preset", flags->preset, "Shape of the model")->type_name("NAME");
  command->add_option("--rounds", flags->rounds, "Saves to time")->check(CLI::PositiveNumber);
  command->add_option("--steps", flags->steps, "Steps of a turn (0: saves alone)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--turns", flags->turns, "Turns with saves, and as many without")
      ->check(CLI::PositiveNumber);
  command->add_option("--every", flags->every, "Steps between two saves")
      ->check(CLI::PositiveNumber);
  command->add_option("--batch", flags->batch, "Rows of a step")->check(CLI::PositiveNumber);
  command->add_option("--seq", flags->seq, "Tokens of a row")->check(CLI::Range(8, 1 << 20));
  command->add_option("--device", flags->device, "auto, cuda or cpu");
  command->add_option("--threads", flags->threads, "Threads (0: automatic)")
      ->check(CLI::NonNegativeNumber);
  command->callback([&session, flags] {
    session.run = [&session, flags] { return bench_checkpoint(session, *flags); };
  });
}

}  // namespace wmtp::cli
