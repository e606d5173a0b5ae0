// Saves of a run: the state is copied aside, a thread writes and commits it, training goes on. One
// save at a time; what went wrong surfaces at the next step boundary.
#pragma once
#include <atomic>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "wmtp/checkpoint/format/pointer.h"
#include "wmtp/checkpoint/load/load.h"
#include "wmtp/checkpoint/save/save.h"
#include "wmtp/comm/session.h"
#include "wmtp/config/load.h"
#include "wmtp/run/checkpoints/save_outcome.h"
#include "wmtp/run/checkpoints/staging.h"
#include "wmtp/run/checkpoints/store_exchange.h"
#include "wmtp/run/checkpoints/trainer_state.h"
#include "wmtp/run/uploads/checkpoint_uploads.h"

namespace wmtp::run {

struct CheckpointOptions {
  std::filesystem::path save_dir;
  std::string model;         // <model> of the names
  std::string run_id;        // of this run, the same on all ranks and, if it can be, at every start
  std::string start_id;      // of this start: votes of another one do not count
  std::string config_yaml;   // resolved
  std::string model_config;  // config.json
  checkpoint::Fingerprints fingerprints;
  std::string version;  // of the program
  std::string strategy;
  bool lora_only = false;
  bool async = true;
  std::optional<std::int64_t> keep = 3;
  std::int64_t max_failed_saves = 3;
  std::shared_ptr<CheckpointUploads> uploads;  // on rank 0; null: nothing goes up
};

class Checkpointer {
 public:
  // COLLECTIVE, BLOCKS. Rank 0 clears what killed runs left and records the start (Error internal
  // in a restart storm). BORROWS session. REQUIRES the folder and, for as long as this lives, its
  // lock (checkpoint::RunLock) in rank 0's hands.
  Checkpointer(CheckpointOptions options, comm::ProcessGroupSession& session);
  // Waits for the save under way; while an exception passes, abandons it after the block or fsync
  // it is at.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // COLLECTIVE. Whether the writers of all ranks have ended.
  bool is_idle();
  // Makes memory for the first save's copy ready, beside the steps that follow. To be called once
  // the first step has taken what steps take: what is left then is what a save may have.
  void prepare(training::TrainableModel& model);
  // COLLECTIVE, BLOCKS while the writer is busy. Copies the state and returns; with `async` off,
  // `wait`, or too little host memory for the copy, only once it is committed. A failure is told by
  // outcomes(). The writer calls `before_commit`, which may be empty, before it commits.
  void save(training::TrainableModel& model, const SavedState& state, SaveMarks marks, bool wait,
            std::function<void()> before_commit = {});
  // Rank 0 lets the pointer name the checkpoint of that step, if it is in save_dir: a killed run
  // may have committed it and not have come to its pointers. A failure is a warning. REQUIRES an
  // idle writer.
  void point(checkpoint::Pointer pointer, std::int64_t step);
  void upload(std::int64_t step);  // rank 0: to storage.s3, where the run does that
  void remove_old(std::int64_t step, std::set<std::string> pinned = {});  // rank 0: by retention

  std::vector<SaveOutcome> outcomes();  // of the saves that ended since the last call
  // To be asked for each, once it is told. Error io after max_failed_saves failures in a row,
  // numeric where the ranks' states differ.
  void throw_if_too_many_failures(const SaveOutcome& outcome);
  // BLOCKS until the writer is idle; what the writer gets done is progress of the watchdog's
  // section.
  void wait();
  bool any_rank(bool mine);  // COLLECTIVE: whether it is true on any
  void finish_cleanly();     // the run is done or saved: its starts are no restart storm

 private:
  struct Job {
    checkpoint::SaveRequest request;
    SaveMarks marks;
    std::set<std::string> pinned;  // the best so far
    std::function<void()> before_commit;
    double blocked_s = 0;
  };
  void work();
  SaveOutcome run(Job& job);
  void after_commit(const Job& job);
  bool move_pointer(checkpoint::Pointer pointer, std::int64_t step);
  std::int64_t copy_budget() const;  // host memory that this rank's copy may take

  CheckpointOptions options_;
  comm::ProcessGroupSession& session_;
  storage::LocalFileSystem files_;
  StoreExchange vote_;
  std::unique_ptr<checkpoint::Saver> saver_;
  StagingArena arena_;
  std::int64_t failed_in_a_row_ = 0;
  bool short_memory_told_ = false;

  std::atomic<bool> abandoned_ = false;
  std::atomic<std::uint64_t> num_signs_ = 0;  // of life, by the writer
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Job> job_;  // waiting or running
  bool ending_ = false;
  std::vector<SaveOutcome> ended_;
  std::thread writer_;
};

}  // namespace wmtp::run
