#include "wmtp/comm/watch/heartbeat.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "wmtp/core/checksum.h"
#include "wmtp/core/error.h"

namespace wmtp::comm {
namespace {

constexpr std::size_t kSlotBytes = 1024;

}  // namespace

Heartbeats::Heartbeats(Store store, int rank) : store_(std::move(store)), rank_(rank) {
  const auto folder = store_.folder();
  if (!folder) return;
  const auto path = *folder / ("beats-" + sha256_hex(store_.prefix()).substr(0, 16));
  slots_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!slots_)
    throw Error(ErrorKind::comm, "comm",
                fmt::format("cannot open {}: {}", path.string(), std::strerror(errno)));
}

void Heartbeats::leave(const std::string& text) {
  const std::string cut = text.substr(0, kMaxTextBytes);
  if (!slots_) return store_.set(fmt::format("beat/{}", rank_), cut);
  std::string slot = cut + '\n';
  slot.resize(kSlotBytes, '\0');
  if (::pwrite(slots_.get(), slot.data(), slot.size(), static_cast<off_t>(rank_ * kSlotBytes)) !=
      static_cast<ssize_t>(slot.size()))
    throw Error(ErrorKind::comm, "comm", "cannot write a sign of life to the run's folder");
}

std::optional<std::string> Heartbeats::read(int rank) const {
  if (!slots_) return store_.try_get(fmt::format("beat/{}", rank), kSlotBytes);
  char slot[kSlotBytes] = {};
  const ssize_t got =
      ::pread(slots_.get(), slot, sizeof(slot), static_cast<off_t>(rank * kSlotBytes));
  const std::string_view text(slot, got > 0 ? static_cast<std::size_t>(got) : 0);
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(text.substr(0, end));
}

}  // namespace wmtp::comm
