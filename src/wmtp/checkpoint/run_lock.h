// One run per folder and model: <save_dir>/<model>.lock, locked with flock and holding the holder's
// host, pid and run id.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "wmtp/storage/open_file.h"

namespace wmtp::checkpoint {

struct LockHolder {
  std::string host;
  int pid = 0;
  std::string run_id;
};
LockHolder this_process(std::string run_id);
// Who wrote its name into the lock, whether it still holds it or not. Touches nothing.
std::optional<LockHolder> named_in_lock(const std::filesystem::path& save_dir,
                                        std::string_view model);

class RunLock {
 public:
  // Makes the folder where there is none. Takes the lock or throws ErrorKind::config naming the
  // holder. A holder of this host that died leaves nothing behind. One of another host that did
  // not let go may be alive where locks do not reach (some network file systems): refused, unless
  // it is the same run or `force` is set. `force` also breaks a lock that is held elsewhere, never
  // that of a living process of this host. BLOCKS while another start is at it
  // (<save_dir>/.<model>.lock.turn): of any number one wins. On a full disk it is held without a
  // name.
  RunLock(const std::filesystem::path& save_dir, std::string_view model, const LockHolder& me,
          bool force = false);
  RunLock(RunLock&&) noexcept = default;
  ~RunLock();  // lets go

 private:
  bool try_lock(const LockHolder& me, bool force);

  std::filesystem::path path_;
  UniqueFd file_;
};

}  // namespace wmtp::checkpoint
