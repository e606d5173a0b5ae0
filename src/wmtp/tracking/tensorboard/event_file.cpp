#include "wmtp/tracking/tensorboard/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "wmtp/core/checksum.h"
#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/tracking/tensorboard/little_endian.h"

namespace wmtp::tracking::tensorboard {
namespace {

constexpr int kMaxEventFiles = 1000;

std::string masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return little_endian(((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U);
}

std::string event_host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

// How many bytes the file took; errno says why it did not take all.
std::size_t write_some(int file, std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t taken = ::write(file, bytes.data() + done, bytes.size() - done);
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0) break;
    done += static_cast<std::size_t>(taken);
  }
  return done;
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder, double start_time_s) {
  std::error_code status;
  std::filesystem::create_directories(folder, status);
  for (int number = 0; !file_ && number < kMaxEventFiles; ++number) {
    path_ = folder / fmt::format("events.out.tfevents.{:010}.{}.{}.{}",
                                 static_cast<std::int64_t>(start_time_s), event_host_name(),
                                 ::getpid(), number);
    file_ =
        UniqueFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600));
    if (!file_ && errno != EEXIST) break;
  }
  if (!file_)
    throw Error(ErrorKind::io, "tracking",
                fmt::format("cannot create {}: {}", path_.string(), std::strerror(errno)),
                "is tracking.tensorboard_dir writable?");
}

void EventFile::write(std::string_view message) {
  if (broken_) return;
  const std::string length = little_endian(static_cast<std::uint64_t>(message.size()));
  const std::string record =
      length + masked_crc(length) + std::string(message) + masked_crc(message);
  const std::size_t done = write_some(file_.get(), record);
  if (done == record.size()) {
    size_ += static_cast<std::int64_t>(done);
    return;
  }
  const int reason = errno;
  broken_ = done > 0 && ::ftruncate(file_.get(), size_) != 0;
  if (broken_)
    log::warn("tracking", "cannot write to {}: {}; it ends here", path_.string(),
              std::strerror(reason));
  else if (!has_warned_)
    log::warn("tracking", "cannot write to {}: {}; its records are lost until that works again",
              path_.string(), std::strerror(reason));
  has_warned_ = true;
}

}  // namespace wmtp::tracking::tensorboard
