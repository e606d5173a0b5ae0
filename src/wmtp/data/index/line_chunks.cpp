#include "wmtp/data/index/line_chunks.h"

#include <algorithm>
#include <cstring>

namespace wmtp::data {
namespace {

constexpr std::size_t kPadding = 64;     // what SIMD readers may touch behind the text
constexpr std::size_t kHeadBytes = 256;  // kept of an overlong line, for the message
constexpr std::size_t kDropBytes = std::size_t{16} << 20;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

LineChunkSource::LineChunkSource(const std::filesystem::path& path, std::uint64_t max_line_bytes,
                                 std::size_t chunk_bytes)
    : max_line_bytes_(max_line_bytes), chunk_bytes_(chunk_bytes) {
  file_ = storage::MappedFile::open(path);
  file_bytes_ = file_.size();
  if (storage::compression_of(path) == storage::Compression::none) {
    file_.advise(storage::Access::sequential);
  } else {
    file_ = {};
    stream_ = storage::open_stream(path);
  }
}

bool LineChunkSource::next(LineChunk& chunk) {
  chunk = LineChunk{};
  return stream_ ? next_streamed(chunk) : next_mapped(chunk);
}

void LineChunkSource::done_until(std::uint64_t offset) {
  if (stream_ || offset < dropped_ + kDropBytes) return;
  file_.drop(dropped_, offset);
  dropped_ = offset;
}

bool LineChunkSource::next_mapped(LineChunk& chunk) {
  const std::string_view all = as_text(file_.bytes());
  if (offset_ >= all.size()) return false;
  const std::string_view rest = all.substr(offset_);
  std::size_t length = std::min(chunk_bytes_, rest.size());
  if (length < rest.size()) {
    const auto newline = rest.substr(0, length).rfind('\n');
    if (newline != std::string_view::npos) {
      length = newline + 1;
    } else {
      const std::size_t window = std::min<std::uint64_t>(rest.size(), max_line_bytes_ + 2);
      const auto next_newline = rest.substr(0, window).find('\n', std::min(length, window));
      if (next_newline != std::string_view::npos)
        length = next_newline + 1;
      else if (window < rest.size())
        return skip_overlong_mapped(chunk);
      else
        length = rest.size();
    }
  }
  chunk.bytes = rest.substr(0, length);
  chunk.first_offset = offset_;
  chunk.readable_bytes = rest.size();
  offset_ += length;
  return true;
}

bool LineChunkSource::skip_overlong_mapped(LineChunk& chunk) {
  const std::string_view all = as_text(file_.bytes());
  std::uint64_t end = offset_ + max_line_bytes_;
  while (end < all.size()) {
    const std::size_t window = std::min<std::uint64_t>(kDropBytes, all.size() - end);
    const void* newline = std::memchr(all.data() + end, '\n', window);
    if (newline) {
      end = static_cast<std::uint64_t>(static_cast<const char*>(newline) - all.data());
      break;
    }
    file_.drop(end, end + window);
    end += window;
  }
  chunk.owned = std::make_shared<const std::string>(all.substr(offset_, kHeadBytes));
  chunk.bytes = *chunk.owned;
  chunk.first_offset = offset_;
  chunk.readable_bytes = chunk.bytes.size();
  chunk.overlong_bytes = end - offset_;
  offset_ = std::min<std::uint64_t>(end + 1, all.size());
  return true;
}

// Appends up to `want` bytes of the stream to `buffer`.
std::size_t LineChunkSource::fill(std::string& buffer, std::size_t want) {
  const std::size_t old_size = buffer.size();
  if (stream_ended_ || want == 0) return 0;
  buffer.resize(old_size + want);
  std::size_t got = 0;
  while (got < want) {
    const auto out = std::as_writable_bytes(std::span(buffer.data() + old_size + got, want - got));
    const std::size_t count = stream_->read(out);
    if (count == 0) {
      stream_ended_ = true;
      break;
    }
    got += count;
  }
  buffer.resize(old_size + got);
  return got;
}

bool LineChunkSource::next_streamed(LineChunk& chunk) {
  std::string buffer = std::move(carry_);
  carry_.clear();
  fill(buffer, chunk_bytes_ > buffer.size() ? chunk_bytes_ - buffer.size() : chunk_bytes_);
  if (buffer.empty()) return false;
  auto newline = buffer.rfind('\n');
  while (newline == std::string::npos && !stream_ended_) {
    if (buffer.size() > max_line_bytes_ + 1)
      return skip_overlong_streamed(chunk, std::move(buffer));
    const std::size_t searched = buffer.size();
    fill(buffer, chunk_bytes_);
    newline = buffer.find('\n', searched);
  }
  if (!stream_ended_ || newline != std::string::npos) {
    const std::size_t cut = newline == std::string::npos ? buffer.size() : newline + 1;
    carry_ = buffer.substr(cut);
    buffer.resize(cut);
  }
  chunk.first_offset = offset_;
  offset_ += buffer.size();
  const std::size_t length = buffer.size();
  buffer.append(kPadding, '\0');
  chunk.owned = std::make_shared<const std::string>(std::move(buffer));
  chunk.bytes = std::string_view(*chunk.owned).substr(0, length);
  chunk.readable_bytes = chunk.owned->size();
  return true;
}

bool LineChunkSource::skip_overlong_streamed(LineChunk& chunk, std::string buffer) {
  chunk.owned = std::make_shared<const std::string>(buffer.substr(0, kHeadBytes));
  chunk.overlong_bytes = buffer.size();
  for (;;) {
    buffer.clear();
    if (fill(buffer, chunk_bytes_) == 0) break;
    const auto newline = buffer.find('\n');
    if (newline != std::string::npos) {
      chunk.overlong_bytes += newline;
      carry_ = buffer.substr(newline + 1);
      break;
    }
    chunk.overlong_bytes += buffer.size();
  }
  chunk.bytes = *chunk.owned;
  chunk.readable_bytes = chunk.bytes.size();
  chunk.first_offset = offset_;
  offset_ += chunk.overlong_bytes + 1;
  return true;
}

void for_each_line(const LineChunk& chunk, const std::function<void(const Line&)>& visit) {
  std::size_t start = 0;
  while (start < chunk.bytes.size()) {
    const auto newline = chunk.bytes.find('\n', start);
    const bool unfinished = newline == std::string_view::npos;
    Line line;
    line.text = chunk.bytes.substr(start, unfinished ? std::string_view::npos : newline - start);
    line.offset = chunk.first_offset + start;
    line.last_without_newline = unfinished;
    line.readable_bytes = chunk.readable_bytes - start;
    if (line.offset == 0 && line.text.starts_with(kByteOrderMark)) {
      line.text.remove_prefix(kByteOrderMark.size());
      line.offset += kByteOrderMark.size();
      line.readable_bytes -= kByteOrderMark.size();
    }
    if (line.text.ends_with('\r')) line.text.remove_suffix(1);
    visit(line);
    start = unfinished ? chunk.bytes.size() : newline + 1;
  }
}

Sha256Digest fingerprint_file(const std::filesystem::path& path) {
  const storage::MappedFile file = storage::MappedFile::open(path);
  file.advise(storage::Access::sequential);
  Sha256 hash;
  for (std::size_t begin = 0; begin < file.size(); begin += kDropBytes) {
    const std::size_t length = std::min(kDropBytes, file.size() - begin);
    hash.update(file.bytes().subspan(begin, length));
    file.drop(begin, begin + length);
  }
  return hash.finish();
}

}  // namespace wmtp::data
