// Checkpoints on their way to storage.s3 (checkpoint.s3_upload). Rank 0 only.
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "wmtp/config/config.h"
#include "wmtp/http/ca_bundle.h"
#include "wmtp/s3/queue/upload_queue.h"
#include "wmtp/storage/file_system.h"

namespace wmtp::run {

class CheckpointUploads {
 public:
  // Goes on with what an earlier start left in <save_dir>/.uploads/<model>; with `offline` nothing
  // is sent, only queued. Error config where storage.s3 makes no sense or nothing on this machine
  // could send. REQUIRES save_dir and the run's lock.
  CheckpointUploads(const config::Config& config, std::string model,
                    const http::Environment& environment, bool offline);

  // A checkpoint of save_dir is committed: it goes up, and those of the pointers that name it here
  // name it there. One that is up already costs a look. BLOCKS for the disk alone; a failure is a
  // warning. THREADS: any.
  void add(const std::string& name);

  std::set<std::string> pending() const { return queue_->pending(); }
  s3::QueueFigures figures() const { return queue_->figures(); }
  // BLOCKS until all are up (true), `limit` has passed, or `is_over` says so.
  bool wait(std::chrono::milliseconds limit, const std::function<bool()>& is_over) {
    return queue_->wait_until_empty(limit, is_over);
  }

 private:
  s3::QueueEntry entry_of(const std::string& name) const;

  std::filesystem::path save_dir_;
  std::string model_;
  storage::LocalFileSystem files_;
  std::unique_ptr<s3::UploadQueue> queue_;
};

// Names of the checkpoints that a queue on disk holds, for who removes checkpoints while no run is
// there.
std::set<std::string> queued_uploads(const storage::FileSystem& files,
                                     const std::filesystem::path& save_dir,
                                     const std::string& model);

// What a run of this configuration uploads through; null: it does not.
std::shared_ptr<CheckpointUploads> open_uploads(const config::Config& config,
                                                const std::string& model,
                                                const http::Environment& environment, bool offline);

}  // namespace wmtp::run
