#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iostream>

#include "wmtp/cli/build_info.h"
#include "wmtp/cli/commands/bench.h"
#include "wmtp/cli/rank_run.h"
#include "wmtp/core/error.h"
#include "wmtp/core/time.h"
#include "wmtp/model/hf_config.h"
#include "wmtp/model/presets.h"
#include "wmtp/storage/descriptor.h"
#include "wmtp/tensor/host_memory.h"
#include "wmtp/training/assemble.h"
#include "wmtp/training/checkpoints/checkpointer.h"
#include "wmtp/training/synthetic_batch.h"

namespace wmtp::cli {
namespace {

namespace fs = std::filesystem;

struct CheckpointFlags {
  std::string preset = "small", out, device = "cpu";
  int rounds = 5, steps = 20, every = 10, batch = 1, seq = 128, threads = 0;
};

// What a program without checksums, votes or a manifest would do.
double plain_write(const fs::path& path, const std::vector<char>& bytes) {
  constexpr std::size_t kPiece = std::size_t{8} << 20;
  ::unlink(path.c_str());
  const auto start = Clock::now();
  const storage::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  std::size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t written =
        ::write(file.get(), bytes.data() + at, std::min(kPiece, bytes.size() - at));
    if (written <= 0) break;
    at += static_cast<std::size_t>(written);
  }
  if (at < bytes.size() || ::fsync(file.get()) != 0)
    throw Error(ErrorKind::io, "bench",
                fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
  return seconds_since(start);
}

struct SaveTimes {
  std::vector<double> memcpy_s, blocked_s, plain_s, save_s;
  double calm_s = 0, saving_s = 0;
  int num_saves = 0, num_left_out = 0;
  std::size_t bytes = 0;
};

class Bench {
 public:
  Bench(const CheckpointFlags& flags, comm::ProcessGroupSession& group, c10::Device device)
      : flags_(flags),
        config_(model::preset(flags.preset)),
        model_(options(device), {&group.gather_group(), &group.reduce_group()}),
        checkpointer_(site(), group) {
    model_.runtime().fill(training::random_weights(config_, 0));
    step();  // moments that are not zero
  }

  SaveTimes run() {
    SaveTimes measured;
    save_once();  // allocates the arena
    for (const training::StatePiece& piece : training::state_pieces(model_, true))
      measured.bytes += static_cast<std::size_t>(piece.values.nbytes());
    const std::vector<char> source(measured.bytes, 1);
    std::vector<char> target(measured.bytes, 2);
    for (int i = 0; i < flags_.rounds; ++i) {
      auto start = Clock::now();
      std::memcpy(target.data(), source.data(), source.size());
      measured.memcpy_s.push_back(seconds_since(start));
      measured.plain_s.push_back(plain_write(fs::path(flags_.out) / "plain", source));
      start = Clock::now();
      begin_save();
      measured.blocked_s.push_back(seconds_since(start));
      checkpointer_.wait();
      measured.save_s.push_back(seconds_since(start));
      require_saved();
    }
    ::unlink((fs::path(flags_.out) / "plain").c_str());
    run_steps(measured);
    return measured;
  }

 private:
  training::AssembleOptions options(c10::Device device) const {
    training::AssembleOptions options;
    options.model = config_;
    options.parallel.device = device;
    options.groups.groups = {{.name = "policy", .learning_rate = 1e-5, .weight_decay = 0.01}};
    return options;
  }

  training::CheckpointSite site() const {
    training::CheckpointSite site;
    site.save_dir = flags_.out;
    site.model = "bench";
    site.run_id = fmt::format("bench-{}", ::getpid());
    site.config_yaml = "{}\n";
    site.model_config = model::hf_config_text(config_, "float32");
    site.version = kVersion;
    site.strategy = "FULL_SHARD";
    site.keep = 2;
    return site;
  }

  bool begin_save() {
    training::SavedState state;
    state.train.step = ++num_saves_;
    return checkpointer_.save(model_, state, {}, /*wait=*/false);
  }
  void require_saved() {
    for (const training::SaveOutcome& outcome : checkpointer_.outcomes())
      if (!outcome.saved) throw Error(ErrorKind::io, "bench", outcome.error);
  }
  void save_once() {
    begin_save();
    checkpointer_.wait();
    require_saved();
  }

  void step() {
    const int heads = static_cast<int>(config_.n_future);
    const auto batch =
        training::synthetic_batch({flags_.batch, flags_.seq, config_.vocab_size, false}, 1,
                                  static_cast<std::uint64_t>(step_++));
    training::StepInput input;
    input.facts.head_targets = training::count_targets(batch.view(), heads);
    input.micro_batches.push_back(training::upload(batch.view(), heads, model_.inv_freq()));
    model_.step().run(std::move(input)).read();
  }

  // Calm and saving by turns, so that both see the same machine.
  void run_steps(SaveTimes& measured) {
    constexpr int kTurns = 2;
    for (int turn = 0; turn < kTurns; ++turn) {
      auto start = Clock::now();
      for (int i = 0; i < flags_.steps; ++i) step();
      measured.calm_s += seconds_since(start);
      start = Clock::now();
      for (int i = 0; i < flags_.steps; ++i) {
        if (i % flags_.every == 0) ++(begin_save() ? measured.num_saves : measured.num_left_out);
        step();
      }
      measured.saving_s += seconds_since(start);
      checkpointer_.wait();
      require_saved();
    }
  }

  CheckpointFlags flags_;
  model::ModelConfig config_;
  training::TrainableModel model_;
  training::Checkpointer checkpointer_;
  std::int64_t num_saves_ = 0;
  int step_ = 0;
};

void show(const CheckpointFlags& flags, const SaveTimes& measured, const Session& session) {
  const double bytes = static_cast<double>(measured.bytes);
  const double copy_s = median(measured.memcpy_s), blocked_s = median(measured.blocked_s);
  const double plain_s = median(measured.plain_s), save_s = median(measured.save_s);
  const double slowdown = measured.saving_s / measured.calm_s - 1;
  if (session.json)
    emit_json("result", {{"preset", flags.preset},
                         {"bytes", measured.bytes},
                         {"memcpy_s", copy_s},
                         {"blocked_s", blocked_s},
                         {"blocked_over_memcpy", blocked_s / copy_s},
                         {"plain_s", plain_s},
                         {"save_s", save_s},
                         {"speed_over_plain", plain_s / save_s},
                         {"step_s", measured.calm_s / (2 * flags.steps)},
                         {"saves", measured.num_saves},
                         {"saves_left_out", measured.num_left_out},
                         {"slowdown", slowdown}});
  else
    fmt::print(
        "{:.0f} MB of state\n"
        "training waits {:.3f} s for a save, memcpy of as much {:.3f} s: {:.2f} times\n"
        "save {:.2f} s ({:.0f} MB/s), plain write and fsync {:.2f} s ({:.0f} MB/s): {:.2f} of its "
        "speed\n"
        "{} steps with {} saves ({} left out): {:+.1f} %\n",
        bytes / 1e6, blocked_s, copy_s, blocked_s / copy_s, save_s, bytes / save_s / 1e6, plain_s,
        bytes / plain_s / 1e6, plain_s / save_s, 2 * flags.steps, measured.num_saves,
        measured.num_left_out, slowdown * 100);
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
    show(flags, Bench(flags, group, device).run(), session);
    return 0;
  });
}

}  // namespace

void add_bench_checkpoint(CLI::App& bench, Session& session) {
  CLI::App* command = bench.add_subcommand(
      "checkpoint", "Saves against memcpy and plain writes, and what they cost a run");
  command->footer(
      "  wmtp bench checkpoint --out /scratch/bench --preset small --steps 40 --every 20");
  const auto flags = std::make_shared<CheckpointFlags>();
  command->add_option("--out", flags->out, "Folder to write to; two checkpoints stay in it")
      ->required()
      ->type_name("D");
  command->add_option("--preset", flags->preset, "Shape of the model")->type_name("NAME");
  command->add_option("--rounds", flags->rounds, "Saves to time")->check(CLI::PositiveNumber);
  command->add_option("--steps", flags->steps, "Steps with and without saves, twice each")
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
