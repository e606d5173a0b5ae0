#include "wmtp/data/plan/signal_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <system_error>

#include "wmtp/core/checksum.h"
#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/core/planted_fault.h"
#include "wmtp/storage/mapped_file.h"

namespace wmtp::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "WMTPSIG1";
constexpr std::size_t kKeyDigits = 64, kFileHeader = kMagic.size() + kKeyDigits;
constexpr std::size_t kRecordHeader = 16, kRecordEnd = 4;

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

template <class T>
T take(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string random_name() {
  std::random_device source;
  const std::uint64_t high = source(), low = source();
  return fmt::format("part-{:08x}{:08x}.wsig", high, low);
}

// Whole, or the number of the error.
int write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

std::vector<SignalRow> signal_rows(const HostBatch& batch) {
  std::vector<SignalRow> rows;
  for (std::size_t doc = 0; doc < batch.num_docs(); ++doc)
    if (!(batch.doc_flags[doc] & kDocFiller))
      rows.push_back({batch.sample_id[doc], batch.sample_part[doc],
                      static_cast<std::uint32_t>(batch.doc_start[doc]),
                      static_cast<std::uint32_t>(batch.doc_len[doc])});
  return rows;
}

SignalCache::SignalCache(fs::path folder, std::string key)
    : folder_(std::move(folder)), key_(std::move(key)) {
  WMTP_CHECK(key_.size() == kKeyDigits, "a key of 64 digits names the signals");
  std::error_code status;
  std::vector<fs::path> files;
  for (fs::directory_iterator at(folder_, status), end; !status && at != end; at.increment(status))
    if (at->path().extension() == ".wsig") files.push_back(at->path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) read_part(file);
}

void SignalCache::read_part(const fs::path& path) {
  const auto mapped = storage::MappedFile::open(path);
  const std::span<const std::byte> bytes = mapped.bytes();
  if (bytes.size() < kFileHeader) return;  // its writer has not come further
  if (text_of(bytes.first(kMagic.size())) != kMagic ||
      text_of(bytes.subspan(kMagic.size(), kKeyDigits)) != key_) {
    log::warn("signals", "{} is left out: it was not written for this model and these data",
              path.string());
    return;
  }
  mapped.advise(storage::Access::sequential);
  std::size_t at = kFileHeader;
  while (bytes.size() - at >= kRecordHeader + kRecordEnd) {
    const Id id{take<std::uint64_t>(bytes, at), take<std::uint32_t>(bytes, at + 8)};
    const auto length = take<std::uint32_t>(bytes, at + 12);
    const std::size_t body = kRecordHeader + std::size_t{length} * sizeof(float);
    if (bytes.size() - at + planted_off_by_one < body + kRecordEnd) break;
    if (crc32c(bytes.subspan(at, body)) != take<std::uint32_t>(bytes, at + body)) {
      log::warn("signals", "{}: damaged after {} bytes, the rest is left out", path.string(), at);
      break;
    }
    rows_.emplace(id, Place{parts_.size(), at + kRecordHeader, length});
    at += body + kRecordEnd;
  }
  parts_.push_back({path, storage::open_regular(path)});
}

void SignalCache::check_length(const Place& place, const SignalRow& row) const {
  if (place.length == row.length) return;
  throw Error(ErrorKind::data, "signals",
              fmt::format("{} holds {} numbers for part {} of sample {}, which has {} tokens",
                          parts_[place.file].path.string(), place.length, row.part, row.sample_id,
                          row.length),
              fmt::format("remove {}", folder_.string()));
}

bool SignalCache::has(const SignalRow& row) const {
  const auto found = rows_.find({row.sample_id, row.part});
  if (found == rows_.end()) return false;
  check_length(found->second, row);
  return true;
}

std::vector<float> SignalCache::find(const HostBatch& batch) const {
  const std::vector<SignalRow> rows = signal_rows(batch);
  if (!std::all_of(rows.begin(), rows.end(), [this](const SignalRow& row) { return has(row); }))
    return {};
  std::vector<float> signals(batch.num_tokens());
  for (const SignalRow& row : rows)
    read(rows_.at({row.sample_id, row.part}), std::span(signals).subspan(row.begin, row.length));
  return signals;
}

void SignalCache::read(const Place& place, std::span<float> out) const {
  auto* to = reinterpret_cast<char*>(out.data());
  std::size_t left = out.size_bytes();
  auto at = static_cast<off_t>(place.offset);
  while (left > 0) {
    const ssize_t got = ::pread(parts_[place.file].file.get(), to, left, at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw Error(ErrorKind::io, "signals",
                  fmt::format("cannot read {}: {}", parts_[place.file].path.string(),
                              got < 0 ? std::strerror(errno) : "it became shorter"));
    to += got, left -= static_cast<std::size_t>(got), at += got;
  }
}

void SignalCache::append(const SignalRow& row, std::span<const float> signals_N) {
  if (broken_ || has(row)) return;
  const Id id{row.sample_id, row.part};
  if (std::any_of(pending_rows_.begin(), pending_rows_.end(),
                  [&](const auto& pending) { return pending.first == id; }))
    return;
  const std::size_t begin = pending_.size();
  put(pending_, row.sample_id);
  put(pending_, row.part);
  put(pending_, row.length);
  const std::span<const float> numbers = signals_N.subspan(row.begin, row.length);
  pending_.append(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
  put(pending_, crc32c(std::string_view(pending_).substr(begin)));
  pending_rows_.emplace_back(id, Place{0, begin + kRecordHeader, row.length});
}

void SignalCache::open_own() {
  std::error_code status;
  fs::create_directories(folder_, status);
  const fs::path path = folder_ / random_name();
  UniqueFd file(::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_APPEND | O_CLOEXEC, 0600));
  if (!file) throw std::system_error(errno, std::generic_category());
  if (const int error = write_all(file.get(), std::string(kMagic) + key_))
    throw std::system_error(error, std::generic_category());
  own_ = parts_.size();
  own_size_ = kFileHeader;
  parts_.push_back({path, std::move(file)});
  opened_ = true;
}

void SignalCache::flush() {
  if (pending_rows_.empty()) return;
  try {
    if (!opened_) open_own();
    if (const int error = write_all(parts_[own_].file.get(), pending_))
      throw std::system_error(error, std::generic_category());
    for (auto& [id, place] : pending_rows_) {
      place.file = own_;
      place.offset += own_size_;
      rows_.emplace(id, place);
    }
    own_size_ += pending_.size();
  } catch (const std::system_error& error) {
    broken_ = true;
    log::warn("signals", "cannot write to {}: {}; signals are computed and not kept",
              folder_.string(), error.code().message());
  }
  pending_.clear();
  pending_rows_.clear();
}

}  // namespace wmtp::data
