#include "wmtp/s3/files/s3_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "wmtp/s3/range_sink.h"

namespace wmtp::s3 {
namespace {

// A checkpoint of many shards has as many of these buffers, so they stay small.
constexpr std::size_t kLeastAheadBytes = kMebibyte, kMostAheadBytes = 4 * kMebibyte;
constexpr int kRangeNotSatisfiable = 416;

int errno_of(const S3Error& error) {
  switch (error.problem()) {
    case Problem::not_found:
      return ENOENT;
    case Problem::denied:
      return EACCES;
    case Problem::bad_digest:
      return ESTALE;
    case Problem::busy:
      return EIO;
    default:
      // A smaller object has taken its place.
      return error.status() == kRangeNotSatisfiable ? ESTALE : 0;
  }
}

}  // namespace

void throw_as_file_error() {
  try {
    throw;
  } catch (const S3Error& error) {
    const int code = errno_of(error);
    if (code == 0) throw;
    throw storage::FileError(code, {error.fact(), error.hint()});
  } catch (const http::Failure& failure) {
    if (failure.kind() != ErrorKind::comm || failure.failure() == http::FailureKind::cancelled)
      throw;
    throw storage::FileError(EIO, {failure.fact(), failure.hint()});
  }
}

void S3Input::fetch(std::uint64_t offset, std::span<std::byte> out) const {
  const Session& session = connections_->session();
  const std::string shown = session.location().shown(key_);
  // A range is at most a part: that is what the limits of time are made for.
  while (!out.empty()) try {
      const auto part = out.first(std::min<std::size_t>(out.size(), session.options().part_bytes));
      RangeSink sink(facts_.etag, shown, [&](std::uint64_t at, std::span<const std::byte> bytes) {
        if (bytes.size() > part.size() - at)
          throw storage::FileError(EIO, {fmt::format("{}: more bytes than asked for", shown)});
        std::memcpy(part.data() + at, bytes.data(), bytes.size());
      });
      connections_->with([&](Bucket& bucket) {
        bucket.get_range(key_, {offset, part.size()}, sink);
      });
      offset += part.size();
      out = out.subspan(part.size());
    } catch (...) {
      throw_as_file_error();
    }
}

void S3Input::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size() || out.size() > size() - offset)
    throw storage::FileError(EIO, {fmt::format("{}: bytes {} to {} lie beyond its end, {}",
                                               connections_->session().location().shown(key_),
                                               offset, offset + out.size(), size())});
  if (out.size() >= kMostAheadBytes) return fetch(offset, out);
  const std::lock_guard lock(mutex_);
  const std::uint64_t ahead_end = ahead_begin_ + ahead_.size();
  if (offset < ahead_begin_ || offset + out.size() > ahead_end) {
    const bool reads_on = !ahead_.empty() && offset >= ahead_begin_ && offset <= ahead_end;
    num_ahead_ = reads_on ? std::min(2 * num_ahead_, kMostAheadBytes) : kLeastAheadBytes;
    std::vector<std::byte> bytes(
        std::min<std::uint64_t>(std::max(num_ahead_, out.size()), size() - offset));
    fetch(offset, bytes);
    ahead_ = std::move(bytes);
    ahead_begin_ = offset;
  }
  if (!out.empty()) std::memcpy(out.data(), ahead_.data() + (offset - ahead_begin_), out.size());
}

}  // namespace wmtp::s3
