#include "wmtp/run/checkpoints/checkpointer.h"

#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <utility>

#include "wmtp/checkpoint/format/folder.h"
#include "wmtp/checkpoint/format/trainer_state.h"
#include "wmtp/checkpoint/load/listing.h"
#include "wmtp/checkpoint/restart_guard.h"
#include "wmtp/checkpoint/save/retention.h"
#include "wmtp/checkpoint/save/shared_probe.h"
#include "wmtp/core/checksum.h"
#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/core/time.h"
#include "wmtp/run/checkpoints/state_check.h"
#include "wmtp/tensor/host_memory.h"

// Two threads, and what each may do. The training thread calls everything public; the writer thread
// runs work(), run() and after_commit(). Collectives belong to the training thread alone (they must
// be started in one order on all ranks, by one thread), so the writers of the ranks agree through
// the store, on a connection of their own (StoreExchange), and the one question that all ranks must
// answer alike, whether the writer is free, is an all-reduce of the training thread (is_idle).
//
// The training thread waits for the writer in wait() only: before it stages, because the arena
// holds the bytes that are being written, and after it where the caller asks for a committed save
// or the state was borrowed instead of copied. The writer never waits for the training thread.
// A third thread lives only between prepare() and the first save: it makes the arena's memory
// ready, and nobody else looks at the arena until stage() has joined it. While job_ is set the
// writer owns it: the training thread only asks under the mutex whether it is there.
//
// Slow storage is no hang and hung storage is one: the calls that the saver makes between blocks
// are counted, and wait() turns each new count into progress of the watchdog's section. A failed
// save stops nothing by itself; it is an outcome that the training thread reads at a step boundary.
// A destructor that runs because of an exception abandons the save, as the ranks that it waits for
// may be gone; otherwise it waits until the save is committed.
//
// After the commit rank 0 moves the pointers first, then queues the checkpoint for storage.s3
// together with them, and removes old checkpoints last, because retention spares what -best and
// -final name and what has not gone up yet. None of it can undo the commit: failures are
// warnings.

namespace wmtp::run {
namespace {

constexpr std::chrono::milliseconds kPollInterval{200};

}  // namespace

Checkpointer::Checkpointer(CheckpointOptions options, comm::ProcessGroupSession& session)
    : options_(std::move(options)), session_(session), vote_(session.store(), "save") {
  if (session.rank() == 0) {
    for (const std::string& name :
         checkpoint::clear_leftovers(files_, options_.save_dir, options_.model))
      log::info("checkpoint", "cleared {}, which a killed run had left", name);
    const auto found = checkpoint::find_checkpoints(files_, options_.save_dir, options_.model);
    checkpoint::record_start({options_.save_dir, options_.model,
                              checkpoint::this_process(options_.start_id),
                              options_.fingerprints.config,
                              found.empty() ? std::nullopt : std::optional(found.front().step)});
  }
  session.gather_group().barrier("checkpoints");
  checkpoint::SaveContext shared{
      files_,          vote_,          options_.save_dir, options_.model,
      options_.run_id, session.rank(), session.world(),   options_.start_id};
  checkpoint::probe_shared_folder(shared);
  shared.check_cancelled = [this] {
    ++num_signs_;
    if (abandoned_)
      throw Error(ErrorKind::comm, "checkpoint", "the run is failing: the save was given up");
  };
  saver_ = std::make_unique<checkpoint::Saver>(shared);
  writer_ = std::thread([this] { work(); });
}

Checkpointer::~Checkpointer() {
  // The run is failing: the ranks that a save under way waits for may be gone.
  if (std::uncaught_exceptions() > 0) abandoned_ = true;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  writer_.join();
}

// All ranks must decide alike, and their writers end at slightly different times.
bool Checkpointer::is_idle() {
  bool idle = false;
  {
    const std::lock_guard lock(mutex_);
    idle = !job_;
  }
  return !any_rank(!idle);
}

bool Checkpointer::any_rank(bool mine) {
  const Tensor count =
      at::full({1}, mine ? 1.0 : 0.0,
               at::TensorOptions().dtype(at::kDouble).device(session_.reduce_group().device()));
  session_.reduce_group().all_reduce(count, "writer").wait();
  return count.item<double>() > 0;
}

std::int64_t Checkpointer::copy_budget() const {
  return available_host_bytes() / session_.launch().local_world;
}

void Checkpointer::prepare(training::TrainableModel& model) {
  arena_.prepare(state_pieces(model, !options_.lora_only), copy_budget());
}

void Checkpointer::save(training::TrainableModel& model, const SavedState& state, SaveMarks marks,
                        bool wait_for_it, std::function<void()> before_commit) {
  const auto begun = Clock::now();
  wait();
  Job job;
  checkpoint::SaveRequest& request = job.request;
  try {
    const std::int64_t budget = copy_budget();
    const auto staged = arena_.stage(state_pieces(model, !options_.lora_only), budget);
    if (staged == StagingArena::Staged::borrowed) {
      wait_for_it = true;
      if (!std::exchange(short_memory_told_, true))
        log::warn("checkpoint",
                  "host memory is too short for a copy of the state ({:.1f} GiB are there for this "
                  "rank): training waits for its saves",
                  static_cast<double>(budget) / (1 << 30));
    }
  } catch (const Error& error) {  // voted on as any rank's failure
    request.local_error = fmt::format("{} ({})", error.fact(), error.hint());
  }
  request.step = state.train.step;
  request.kind =
      options_.lora_only ? checkpoint::CheckpointKind::lora : checkpoint::CheckpointKind::sharded;
  request.strategy = options_.strategy;
  request.num_writers = num_writers(model);
  request.wmtp = options_.version;
  request.fingerprints = options_.fingerprints;
  request.model = arena_.model();
  request.optim = arena_.optim();
  request.trainer_state = checkpoint::trainer_state_text(to_json(state));
  request.state_hash = sha256_hex(
      fmt::format("{}{}", request.trainer_state, replica_digest(model, session_.reduce_group())));
  request.texts = {{"config.yaml", options_.config_yaml}, {"config.json", options_.model_config}};
  job.marks = marks;
  job.before_commit = std::move(before_commit);
  if (state.train.best)
    job.pinned = {checkpoint::checkpoint_name(options_.model, state.train.best->step)};
  job.blocked_s = seconds_since(begun);
  {
    const std::lock_guard lock(mutex_);
    job_ = std::move(job);
  }
  changed_.notify_all();
  if (!wait_for_it && options_.async) return;
  wait();
  const std::lock_guard lock(mutex_);
  ended_.back().blocked_s = seconds_since(begun);
}

void Checkpointer::wait() {
  std::unique_lock lock(mutex_);
  std::uint64_t seen = num_signs_;
  while (!changed_.wait_for(lock, kPollInterval, [this] { return !job_; }))
    if (const std::uint64_t now = num_signs_; now != seen) {
      seen = now;
      session_.watchdog().progress();
    }
}

void Checkpointer::finish_cleanly() {
  if (session_.rank() == 0) checkpoint::forget_starts(options_.save_dir, options_.model);
}

std::vector<SaveOutcome> Checkpointer::outcomes() {
  const std::lock_guard lock(mutex_);
  return std::exchange(ended_, {});
}

void Checkpointer::throw_if_too_many_failures(const SaveOutcome& outcome) {
  if (outcome.state_differs) throw Error(ErrorKind::numeric, "checkpoint", outcome.error);
  failed_in_a_row_ = outcome.saved ? 0 : failed_in_a_row_ + 1;
  if (failed_in_a_row_ >= options_.max_failed_saves)
    throw Error(ErrorKind::io, "checkpoint",
                fmt::format("{} saves in a row failed, the last at step {}: {}", failed_in_a_row_,
                            outcome.step, outcome.error),
                "is there room in checkpoint.save_dir, and can it be written?");
}

void Checkpointer::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return job_ || ending_; });
    if (!job_) return;
    lock.unlock();
    SaveOutcome outcome = run(*job_);
    lock.lock();
    ended_.push_back(std::move(outcome));
    job_.reset();
    changed_.notify_all();
  }
}

SaveOutcome Checkpointer::run(Job& job) {
  const auto begun = Clock::now();
  SaveOutcome outcome;
  outcome.step = job.request.step;
  outcome.blocked_s = job.blocked_s;
  try {
    if (job.before_commit) job.before_commit();
    outcome.name = saver_->save(job.request).name;
    outcome.saved = true;
    outcome.seconds = seconds_since(begun) + job.blocked_s;
    if (session_.rank() == 0) after_commit(job);
  } catch (const std::exception& error) {
    outcome.error = error.what();
    const auto* known = dynamic_cast<const Error*>(&error);
    outcome.state_differs = known && known->kind() == ErrorKind::numeric;
    if (session_.rank() == 0) log::warn("checkpoint", "step {}: {}", outcome.step, outcome.error);
  }
  return outcome;
}

// The checkpoint is committed, whatever happens to pointers and old ones.
void Checkpointer::after_commit(const Job& job) {
  checkpoint::forget_starts(options_.save_dir, options_.model);
  const std::int64_t step = job.request.step;
  if (job.marks.best) move_pointer(checkpoint::Pointer::best, step);
  if (job.marks.final) move_pointer(checkpoint::Pointer::final, step);
  move_pointer(checkpoint::Pointer::latest, step);
  upload(step);
  remove_old(step, job.pinned);
}

void Checkpointer::remove_old(std::int64_t step, std::set<std::string> pinned) {
  if (session_.rank() != 0) return;
  if (options_.uploads) pinned.merge(options_.uploads->pending());
  try {
    checkpoint::apply_retention(
        files_, options_.save_dir, options_.model,
        {.keep = options_.keep, .pinned = std::move(pinned), .newest_step = step});
  } catch (const Error& error) {
    log::warn("checkpoint", "old checkpoints stay: {}", error.fact());
  }
}

void Checkpointer::upload(std::int64_t step) {
  const std::string name = checkpoint::checkpoint_name(options_.model, step);
  if (options_.uploads && checkpoint::is_checkpoint(files_, options_.save_dir / name))
    options_.uploads->add(name);
}

void Checkpointer::point(checkpoint::Pointer pointer, std::int64_t step) {
  if (move_pointer(pointer, step)) upload(step);
}

bool Checkpointer::move_pointer(checkpoint::Pointer pointer, std::int64_t step) {
  if (session_.rank() != 0) return false;
  const std::string name = checkpoint::checkpoint_name(options_.model, step);
  if (!checkpoint::is_checkpoint(files_, options_.save_dir / name)) return false;
  if (checkpoint::is_named_by(files_, options_.save_dir, {name, options_.model, step}, pointer))
    return false;
  try {
    checkpoint::write_pointer(files_, options_.save_dir, options_.model, pointer, name);
    return true;
  } catch (const Error& error) {
    log::warn("checkpoint", "{} is committed, but {} does not name it: {}", name,
              checkpoint::pointer_name(options_.model, pointer), error.fact());
    return false;
  }
}

}  // namespace wmtp::run
