#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "wmtp/cli/doctor/machine_checks.h"
#include "wmtp/core/time.h"
#include "wmtp/core/unique_fd.h"

namespace wmtp::cli {
namespace {

constexpr std::size_t kLargeBytes = std::size_t{32} << 20;
constexpr int kNumSmallWrites = 9;

bool write_all(int fd, const std::vector<char>& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t taken = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (taken < 0 && errno == EINTR) continue;
    if (taken <= 0) return false;
    done += static_cast<std::size_t>(taken);
  }
  return true;
}

// False with errno set when a write or an fsync fails.
bool measure(int fd, DiskSpeed& speed) {
  std::array<double, kNumSmallWrites> small_ms{};
  const std::vector<char> page(4096, 'w');
  for (double& ms : small_ms) {
    const auto start = Clock::now();
    if (!write_all(fd, page) || ::fsync(fd) != 0) return false;
    ms = seconds_since(start) * 1e3;
  }
  std::sort(small_ms.begin(), small_ms.end());
  speed.fsync_ms = small_ms[kNumSmallWrites / 2];
  const std::vector<char> large(kLargeBytes, 'w');
  const auto start = Clock::now();
  if (!write_all(fd, large) || ::fsync(fd) != 0) return false;
  speed.mb_per_s = static_cast<double>(kLargeBytes) / 1e6 / seconds_since(start);
  return true;
}

// What checkpoints stand on: a lock keeps a second opener out, and a folder can change its name.
// "" where both hold, else what does not.
std::string find_broken_promise(const std::filesystem::path& folder) {
  std::string hidden = (folder / ".wmtp-doctor-XXXXXX").string();
  if (!::mkdtemp(hidden.data())) return fmt::format("no folder in it: {}", std::strerror(errno));
  const std::filesystem::path probe = hidden;
  std::string fault;
  {
    const std::filesystem::path path = probe / "lock";
    const UniqueFd first(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    const UniqueFd second(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!first || !second || ::flock(first.get(), LOCK_EX | LOCK_NB) != 0)
      fault = fmt::format("files cannot be locked: {}", std::strerror(errno));
    else if (::flock(second.get(), LOCK_EX | LOCK_NB) == 0)
      fault = "a locked file can be locked again: two runs could save into one folder";
    std::error_code status;
    std::filesystem::create_directory(probe / "before", status);
    if (!status) std::filesystem::rename(probe / "before", probe / "after", status);
    if (fault.empty() && (status || !std::filesystem::is_directory(probe / "after")))
      fault = fmt::format("a folder cannot be renamed: {}", status.message());
  }
  std::error_code ignored;
  std::filesystem::remove_all(probe, ignored);
  return fault;
}

StorageFinding failed(std::string fact, std::string fix) {
  return {{Health::fail, "storage", std::move(fact), std::move(fix), {}}, std::nullopt};
}

}  // namespace

StorageFinding check_storage(const std::filesystem::path& folder) {
  std::error_code status;
  const std::filesystem::space_info space = std::filesystem::space(folder, status);
  if (status)
    return failed(fmt::format("{}: {}", folder.string(), status.message()),
                  "create the folder, or name another with --storage");
  // A file without a name: nothing is left behind, however this ends.
  const UniqueFd file(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  std::string hidden = (folder / ".wmtp-doctor-XXXXXX").string();
  const UniqueFd named(file ? -1 : ::mkostemp(hidden.data(), O_CLOEXEC));
  if (named) ::unlink(hidden.c_str());
  const int fd = file ? file.get() : named.get();
  DiskSpeed speed;
  if (fd < 0 || !measure(fd, speed))
    return failed(fmt::format("{}: cannot write: {}", folder.string(), std::strerror(errno)),
                  "free space, fix permissions, or name another folder with --storage");
  if (const std::string fault = find_broken_promise(folder); !fault.empty())
    return failed(fmt::format("{}: {}", folder.string(), fault),
                  "save checkpoints on another file system");
  const double free_gib = static_cast<double>(space.available) / kGib;
  Check check{
      Health::ok,
      "storage",
      fmt::format("{}: {:.1f} GiB free, fsync {:.1f} ms, {:.0f} MB/s, locks and renames hold",
                  folder.string(), free_gib, speed.fsync_ms, speed.mb_per_s),
      "",
      {}};
  if (free_gib < 10) {
    check.health = Health::warn;
    check.fix = "a checkpoint of a 7 B model takes about 80 GiB; free space or use another folder";
  } else if (speed.fsync_ms > 100) {
    check.health = Health::warn;
    check.fix = "each save waits for several fsyncs; use a faster disk for checkpoints";
  }
  return {check, speed};
}

}  // namespace wmtp::cli
