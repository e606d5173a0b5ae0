// The commit protocol. A checkpoint is written under a temporary name by all ranks, agreed on by
// vote, and appears under its own name by one rename: whole or not at all, wherever it is cut.
//
//   1 rank 0 makes the temporary folder and tells the others      4 rank 0 writes the texts, then
//   2 each rank writes, fsyncs, closes its shard files              manifest.json; fsyncs all
//   3 each rank posts its part of the manifest, or its error      5 rank 0 renames, fsyncs save_dir
// After step 5 the checkpoint is committed. Pointers, reports and retention come after that.
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "wmtp/checkpoint/format/manifest_text.h"
#include "wmtp/checkpoint/kv_exchange.h"
#include "wmtp/checkpoint/save/shard_writer.h"
#include "wmtp/core/time.h"
#include "wmtp/storage/file_system.h"

namespace wmtp::checkpoint {

// Where and as whom; the same for all saves of a run. BORROWS `files` and `vote`.
struct SaveContext {
  storage::FileSystem& files;
  KvExchange& vote;
  std::filesystem::path save_dir;  // exists
  std::string model, run_id;
  int rank = 0, world_size = 1;
  std::string attempt = "0";  // run token and restart count: votes of another start do not count
  std::chrono::milliseconds timeout{600'000};  // for the slowest rank
  // Called between blocks, files and looks at the vote: a sign of life, and what it throws gives
  // the save up. A call into the file system that is under way is not cut short. THREADS: any.
  std::function<void()> check_cancelled = [] {};
};

struct TextFile {
  std::string name, text;
};

struct SaveRequest {
  std::int64_t step = 0;
  CheckpointKind kind = CheckpointKind::sharded;
  std::string strategy, wmtp;
  Fingerprints fingerprints;
  std::vector<TensorPiece> model, optim;  // this rank's pieces
  int num_writers = 0;                    // ranks that have pieces, about equally many; 0: all
  std::string state_hash;                 // of the state that all ranks hold alike; may be empty
  std::string local_error;                // why this rank cannot write: the save fails on all
  // Rank 0 only:
  std::string trainer_state;    // trainer_state_text()
  std::vector<TextFile> texts;  // config.yaml, config.json
};

struct SaveReport {
  std::string name;            // <model>-<N>steps
  bool already_there = false;  // this saver had committed the step before: nothing was done
};

// THREADS: one save at a time.
class Saver {
 public:
  // Model and run id must be fit for file names (ErrorKind::config).
  explicit Saver(SaveContext context);

  // COLLECTIVE through the vote: all ranks, same order of saves. BLOCKS. Returns on all ranks when
  // it is committed, or throws on all: ErrorKind::numeric when ranks hold different state, comm
  // after a time-out, otherwise io or checkpoint. One limit is not shared: a rank that hears no
  // decision for 2 x timeout after its own part throws comm, even if rank 0, slower than that,
  // commits later. A failed save leaves the other checkpoints untouched; its temporary folder goes
  // when the next save begins. REQUIRES rank 0 to hold the run's lock.
  SaveReport save(const SaveRequest& request);

 private:
  SaveReport lead(const SaveRequest& request);
  SaveReport follow(const SaveRequest& request);
  std::filesystem::path begin(const SaveRequest& request);  // empty: already there
  bool is_taken_by_us(const std::string& name);
  void check_free_space(const SaveRequest& request) const;
  Manifest describe(const SaveRequest& request) const;
  RankPart write_part(const std::filesystem::path& folder, const SaveRequest& request);
  void collect_parts(Manifest& manifest, RankPart mine);
  void write_texts(const std::filesystem::path& folder, const SaveRequest& request,
                   Manifest& manifest);
  void write_manifest(const std::filesystem::path& folder, Manifest& manifest);
  void publish(const std::filesystem::path& folder, const std::string& name);
  std::string key(std::string_view what) const;
  // Until `timeout` after `since`.
  std::string wait_for(std::string_view what, Clock::time_point since,
                       std::chrono::milliseconds timeout) const;
  void forget_earlier();
  void post(std::string_view what, std::string_view value) const;

  SaveContext context_;
  std::int64_t num_saves_ = 0, step_ = 0;
  std::string committed_;  // the newest of ours; one whose last fsync failed is to be written anew
  std::vector<std::string> earlier_;  // rank 0: saves whose votes may still be read
};

}  // namespace wmtp::checkpoint
