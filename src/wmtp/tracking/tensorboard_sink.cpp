#include "wmtp/tracking/tensorboard_sink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "wmtp/core/checksum.h"
#include "wmtp/core/error.h"
#include "wmtp/core/log.h"

namespace wmtp::tracking {
namespace {

// Fields of tensorflow's Event, Summary and Summary.Value with their wire types.
constexpr char kWallTime = 0x09, kStep = 0x10, kFileVersion = 0x1a, kSummary = 0x2a;
constexpr char kValue = 0x0a, kTag = 0x0a, kSimpleValue = 0x15;
constexpr int kMaxFiles = 1000;

template <class Unsigned>
std::string little_endian(Unsigned value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i, value >>= 8U)
    bytes.push_back(static_cast<char>(value & 0xffU));
  return bytes;
}

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7U) bytes.push_back(static_cast<char>(value | 0x80U));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

std::string length_field(char key, std::string_view bytes) {
  return key + varint(bytes.size()) + std::string(bytes);
}

std::string wall_time_field(double seconds) {
  return kWallTime + little_endian(std::bit_cast<std::uint64_t>(seconds));
}

std::string masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return little_endian(((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U);
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace

TensorboardSink::TensorboardSink(const std::filesystem::path& folder, double start_time_s) {
  std::error_code status;
  std::filesystem::create_directories(folder, status);
  for (int number = 0; !file_ && number < kMaxFiles; ++number) {
    path_ = folder / fmt::format("events.out.tfevents.{:010}.{}.{}.{}",
                                 static_cast<std::int64_t>(start_time_s), host_name(), ::getpid(),
                                 number);
    file_ =
        UniqueFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600));
    if (!file_ && errno != EEXIST) break;
  }
  if (!file_)
    throw Error(ErrorKind::io, "tracking",
                fmt::format("cannot create {}: {}", path_.string(), std::strerror(errno)),
                "is tracking.tensorboard_dir writable?");
  write_record(wall_time_field(start_time_s) + length_field(kFileVersion, "brain.Event:2"));
}

void TensorboardSink::point(const Point& point) {
  std::string values;
  for (const auto& [name, value] : point.values)
    values += length_field(
        kValue, length_field(kTag, name) + kSimpleValue +
                    little_endian(std::bit_cast<std::uint32_t>(static_cast<float>(value))));
  write_record(wall_time_field(point.time_s) + kStep +
               varint(static_cast<std::uint64_t>(point.step)) + length_field(kSummary, values));
}

void TensorboardSink::write_record(std::string_view data) {
  if (broken_) return;
  const std::string length = little_endian(static_cast<std::uint64_t>(data.size()));
  const std::string record = length + masked_crc(length) + std::string(data) + masked_crc(data);
  ssize_t done = 0;
  do done = ::write(file_.get(), record.data(), record.size());
  while (done < 0 && errno == EINTR);
  broken_ = done != static_cast<ssize_t>(record.size());
  if (broken_)
    log::warn("tracking", "cannot write to {}: {}; it ends here", path_.string(),
              done < 0 ? std::strerror(errno) : "the disk took a part only");
}

}  // namespace wmtp::tracking
