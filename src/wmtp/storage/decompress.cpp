#include "wmtp/storage/decompress.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <vector>

#include "wmtp/storage/open_file.h"

namespace wmtp::storage {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{256} << 10;
constexpr int kMaxZstdWindowLog = 27;

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(const std::filesystem::path& path)
      : path_(path), file_(open_regular(path)) {}

  std::size_t read(std::span<std::byte> out) override {
    std::size_t filled = 0;
    while (filled < out.size()) {
      const ssize_t got = ::read(file_.get(), out.data() + filled, out.size() - filled);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        throw Error(ErrorKind::io, "storage",
                    fmt::format("cannot read {}: {}", path_.string(), std::strerror(errno)));
      if (got == 0) break;
      filled += static_cast<std::size_t>(got);
    }
    return filled;
  }

 private:
  std::filesystem::path path_;
  UniqueFd file_;
};

// What both decoders share: a window of compressed bytes that is refilled from the file.
class CompressedStream : public ByteStream {
 public:
  CompressedStream(const std::filesystem::path& path, std::string_view format)
      : path_(path), format_(format), file_(path), buffer_(kChunkBytes) {}

  std::size_t read(std::span<std::byte> out) final {
    std::size_t filled = 0;
    while (filled < out.size()) {
      if (begin_ == end_ && !file_ended_) refill();
      if (begin_ == end_ && !inside_ && !member_seen_) damaged("the stream is empty");
      if (begin_ == end_ && !inside_) break;
      const std::size_t produced = decode(out.subspan(filled));
      filled += produced;
      if (begin_ == end_ && file_ended_ && inside_ && produced == 0)
        damaged("the stream is truncated");
    }
    return filled;
  }

 protected:
  // Decodes from window() into `out`, consuming what it used; returns bytes produced and keeps
  // inside_.
  virtual std::size_t decode(std::span<std::byte> out) = 0;

  std::span<const std::byte> window() const { return {buffer_.data() + begin_, end_ - begin_}; }
  void consume(std::size_t count) { begin_ += count; }
  void set_inside(bool inside) {
    inside_ = inside;
    member_seen_ = true;
  }
  [[noreturn]] void damaged(std::string_view fact) const {
    throw Error(ErrorKind::data, "storage",
                fmt::format("{}: bad {} data near byte {}: {}", path_.string(), format_,
                            file_offset_ - (end_ - begin_), fact),
                "is the file complete?");
  }

 private:
  void refill() {
    begin_ = 0;
    end_ = file_.read(buffer_);
    file_offset_ += end_;
    file_ended_ = end_ < buffer_.size();
  }

  std::filesystem::path path_;
  std::string format_;
  PlainStream file_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  std::uint64_t file_offset_ = 0;
  bool file_ended_ = false, inside_ = false, member_seen_ = false;
};

class GzipStream final : public CompressedStream {
 public:
  explicit GzipStream(const std::filesystem::path& path) : CompressedStream(path, "gzip") {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (::inflateInit2(&state_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipStream() override { ::inflateEnd(&state_); }

 private:
  std::size_t decode(std::span<std::byte> out) override {
    const auto in = window();
    const auto room =
        static_cast<uInt>(std::min<std::size_t>(out.size(), std::numeric_limits<uInt>::max()));
    state_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    state_.avail_in = static_cast<uInt>(in.size());
    state_.next_out = reinterpret_cast<Bytef*>(out.data());
    state_.avail_out = room;
    const int result = ::inflate(&state_, Z_NO_FLUSH);
    consume(in.size() - state_.avail_in);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      damaged(state_.msg ? state_.msg : "it does not decode");
    set_inside(result != Z_STREAM_END);
    if (result == Z_STREAM_END) ::inflateReset(&state_);
    return room - state_.avail_out;
  }

  z_stream state_{};
};

class ZstdStream final : public CompressedStream {
 public:
  explicit ZstdStream(const std::filesystem::path& path)
      : CompressedStream(path, "zstd"), state_(::ZSTD_createDCtx(), ::ZSTD_freeDCtx) {
    if (!state_) throw std::bad_alloc();
    ::ZSTD_DCtx_setParameter(state_.get(), ZSTD_d_windowLogMax, kMaxZstdWindowLog);
  }

 private:
  std::size_t decode(std::span<std::byte> out) override {
    const auto bytes = window();
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    ZSTD_outBuffer produced{out.data(), out.size(), 0};
    const std::size_t result = ::ZSTD_decompressStream(state_.get(), &produced, &in);
    consume(in.pos);
    if (::ZSTD_isError(result)) damaged(::ZSTD_getErrorName(result));
    set_inside(result != 0);
    return produced.pos;
  }

  std::unique_ptr<ZSTD_DCtx, decltype(&::ZSTD_freeDCtx)> state_;
};

}  // namespace

Compression compression_of(const std::filesystem::path& path) {
  const auto ending = path.extension();
  return ending == ".gz"    ? Compression::gzip
         : ending == ".zst" ? Compression::zstd
                            : Compression::none;
}

std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& path) {
  switch (compression_of(path)) {
    case Compression::gzip:
      return std::make_unique<GzipStream>(path);
    case Compression::zstd:
      return std::make_unique<ZstdStream>(path);
    case Compression::none:
      return std::make_unique<PlainStream>(path);
  }
  WMTP_CHECK(false, "unknown compression");
}

}  // namespace wmtp::storage
