// One run per folder and model: <save_dir>/<model>.lock, locked with flock and holding the holder's
// host, pid and run id, then the restart counts and the id of its job where it has one. The file's
// time of change is the holder's heartbeat.
#pragma once
#include <chrono>
#include <compare>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "wmtp/storage/open_file.h"

namespace wmtp::checkpoint {

// How often a job was begun again: by the scheduler, and within one of its starts by a launcher.
struct RestartCounts {
  int job = 0, ranks = 0;
  auto operator<=>(const RestartCounts&) const = default;
};

struct LockHolder {
  std::string host;
  int pid = 0;
  std::string run_id;
  std::string job = {};  // the scheduler's or launcher's id, the same at every start; empty: none
  RestartCounts restarts = {};
};
LockHolder this_process(std::string run_id);
// "run 1f (host n7, pid 12)", and ", job 77" in it where there is one.
std::string describe(const LockHolder& holder);
// Whether `me` is a later start of the holder's own job, which takes its lock over once its
// heartbeat has stopped.
bool is_later_start(const LockHolder& me, const LockHolder& holder);
// Who wrote its name into the lock, whether it still holds it or not. Touches nothing.
std::optional<LockHolder> named_in_lock(const std::filesystem::path& save_dir,
                                        std::string_view model);

// A holder whose heartbeat is older is gone, as far as its own job is concerned. It is measured by
// the clock of the file system alone.
inline constexpr std::chrono::seconds kHeartbeatLimit{10};

class RunLock {
 public:
  // Makes the folder where there is none. Takes the lock or throws ErrorKind::config naming the
  // holder. A holder of this host that died leaves nothing behind. One of another host that did
  // not let go may be alive where locks do not reach (some network file systems): refused, unless
  // `force` is set, or it is the same run or job and its heartbeat has stopped, which is waited
  // for. A lock that is held elsewhere is broken by a later start of the same job once the
  // heartbeat has stopped, and by `force`; never that of a living process of this host. BLOCKS
  // while another start is at it (<save_dir>/.<model>.lock.turn): of any number one wins. On a full
  // disk it is held without a name.
  RunLock(const std::filesystem::path& save_dir, std::string_view model, const LockHolder& me,
          bool force = false, std::chrono::milliseconds heartbeat_limit = kHeartbeatLimit);
  RunLock(RunLock&&) noexcept = default;
  ~RunLock();  // lets go

  int fd() const { return file_.get(); }

 private:
  bool try_lock(const LockHolder& me, bool force);
  void wait_for_end_of_heartbeat(const LockHolder& holder) const;

  std::filesystem::path path_, turn_path_;
  std::chrono::milliseconds heartbeat_limit_;
  UniqueFd file_;
};

// Beats for as long as it lives, from a thread of its own. BORROWS the lock. What cannot be written
// is no error: others then see a holder that is gone, and the lock itself still holds.
class LockHeartbeat {
 public:
  explicit LockHeartbeat(const RunLock& lock,
                         std::chrono::milliseconds interval = std::chrono::seconds(2));
  ~LockHeartbeat();
  LockHeartbeat(const LockHeartbeat&) = delete;
  LockHeartbeat& operator=(const LockHeartbeat&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ending_changed_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace wmtp::checkpoint
