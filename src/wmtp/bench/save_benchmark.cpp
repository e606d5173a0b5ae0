#include "wmtp/bench/save_benchmark.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "wmtp/checkpoint/run_lock.h"
#include "wmtp/cli/build_info.h"
#include "wmtp/core/error.h"
#include "wmtp/core/time.h"
#include "wmtp/model/hf_config.h"
#include "wmtp/model/presets.h"
#include "wmtp/models/model_source.h"
#include "wmtp/models/synthetic_batch.h"
#include "wmtp/run/checkpoints/checkpointer.h"
#include "wmtp/storage/open_file.h"
#include "wmtp/tensor/host_memory.h"
#include "wmtp/training/assemble.h"
#include "wmtp/training/objectives/baseline.h"

namespace wmtp::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBenchModel = "bench";
constexpr int kStepsToFirstSave = 10;

// What a program without checksums, votes or a manifest would do.
void plain_write(const fs::path& path, std::span<const char> bytes) {
  constexpr std::size_t kPiece = std::size_t{8} << 20;
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  while (file && !bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), std::min(kPiece, bytes.size()));
    if (written <= 0) break;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  if (!bytes.empty() || ::fsync(file.get()) != 0)
    throw Error(ErrorKind::io, "bench",
                fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

class SaveBenchmark {
 public:
  SaveBenchmark(const CheckpointFlags& flags, comm::ProcessGroupSession& group, c10::Device device)
      : flags_(flags),
        config_(model::preset(flags.preset)),
        model_(options(device), parallel::groups_of(group, options(device).parallel)),
        lock_(flags.out, kBenchModel, checkpoint::this_process(run_id())),
        checkpointer_(checkpoint_options(), group) {
    model_.runtime().fill(models::random_weights(config_, 0));
    step();  // moments that are not zero
    if (flags.prepare) checkpointer_.prepare(model_);
    for (int i = 0; i < kStepsToFirstSave; ++i) step();
  }

  SaveTimes run() {
    SaveTimes measured;
    measured.first_blocked_s = time_save().blocked_s;
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

  run::CheckpointOptions checkpoint_options() const {
    run::CheckpointOptions options;
    options.save_dir = flags_.out;
    options.model = kBenchModel;
    options.run_id = options.start_id = run_id();
    options.config_yaml = "{}\n";
    options.model_config = model::hf_config_text(config_, "float32");
    options.version = cli::kVersion;
    options.strategy = "FULL_SHARD";
    options.keep = 2;
    return options;
  }

  // Both sides write the same bytes in as many files, onto a disk that has nothing else to do.
  void copy_state() {
    for (const checkpoint::Part part : {checkpoint::Part::model, checkpoint::Part::optim}) {
      for (const run::StatePiece& piece : run::state_pieces(model_, true)) {
        if (piece.part != part) continue;
        const Tensor host = piece.values.joined().cpu();
        const auto* bytes = static_cast<const char*>(host.const_data_ptr());
        source_.insert(source_.end(), bytes, bytes + host.nbytes());
      }
      if (part == checkpoint::Part::model) model_bytes_ = source_.size();
    }
  }
  void settle_disk() const {
    const UniqueFd folder(::open(flags_.out.c_str(), O_RDONLY | O_CLOEXEC));
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

}  // namespace

SaveTimes time_saves(const CheckpointFlags& flags, comm::ProcessGroupSession& group,
                     c10::Device device) {
  return SaveBenchmark(flags, group, device).run();
}

}  // namespace wmtp::bench
