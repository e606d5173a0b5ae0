#include "wmtp/storage/decompress.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace wmtp::storage {
namespace {

using test::TempDir;
using test::write_file;

std::string gzip(std::string_view text) {
  z_stream state{};
  deflateInit2(&state, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&state, text.size()), '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&state, Z_FINISH), Z_STREAM_END);
  out.resize(state.total_out);
  deflateEnd(&state);
  return out;
}

std::string zstd(std::string_view text) {
  ZSTD_CCtx* state = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(state, ZSTD_c_checksumFlag, 1);
  std::string out(ZSTD_compressBound(text.size()) + 8, '\0');
  out.resize(ZSTD_compress2(state, out.data(), out.size(), text.data(), text.size()));
  ZSTD_freeCCtx(state);
  return out;
}

std::string read_all(const std::filesystem::path& path, std::size_t piece_bytes) {
  auto stream = open_stream(path);
  std::string text;
  std::vector<std::byte> piece(piece_bytes);
  while (const std::size_t got = stream->read(piece))
    text.append(reinterpret_cast<const char*>(piece.data()), got);
  return text;
}

// Compresses to more than one refill of the reader's buffer.
std::string noisy_text(std::size_t size_bytes) {
  std::string text(size_bytes, '\0');
  std::uint32_t state = 1;
  for (char& c : text) c = static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
  return text;
}

class Decompress : public testing::TestWithParam<const char*> {
 protected:
  std::string compress(std::string_view text) const {
    const std::string_view ending = GetParam();
    return ending == ".gz" ? gzip(text) : ending == ".zst" ? zstd(text) : std::string(text);
  }
  std::filesystem::path file(std::string_view bytes) const {
    const auto path = folder_ / (std::string("rows.jsonl") + GetParam());
    write_file(path, bytes);
    return path;
  }
  TempDir folder_;
};

TEST_P(Decompress, GivesTheTextBackInPiecesOfAnySize) {
  const std::string text = noisy_text(1'000'003);
  const auto path = file(compress(text));
  EXPECT_EQ(read_all(path, 4096), text);
  EXPECT_EQ(read_all(path, 2'000'000), text);
  EXPECT_EQ(read_all(file(compress("abc")), 1), "abc");
}

TEST_P(Decompress, SeveralStreamsInARowAreOne) {
  EXPECT_EQ(read_all(file(compress("one ") + compress("") + compress("two")), 64), "one two");
}

INSTANTIATE_TEST_SUITE_P(All, Decompress, testing::Values(".txt", ".gz", ".zst"));

class Damaged : public Decompress {};

TEST_P(Damaged, EveryTruncationIsAnError) {
  const std::string whole = compress(noisy_text(300) + std::string(5000, 'a'));
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_WMTP_ERROR(read_all(file(whole.substr(0, size)), 1 << 16), ErrorKind::data,
                      size == 0 ? "is empty" : "is truncated");
  EXPECT_EQ(read_all(file(whole), 1 << 16).size(), 5300u);
}

TEST_P(Damaged, GarbageIsAnErrorWithItsPlace) {
  EXPECT_WMTP_ERROR(read_all(file("{\"prompt\": 1}\n"), 64), ErrorKind::data, "near byte");
  EXPECT_WMTP_ERROR(read_all(file(compress("abc") + "trailing"), 64), ErrorKind::data, "near byte");
}

TEST_P(Damaged, AFlippedBitInTheTextIsNoticed) {
  std::string bytes = compress(noisy_text(1000));
  bytes[bytes.size() / 2] ^= 1;
  EXPECT_WMTP_ERROR(read_all(file(bytes), 64), ErrorKind::data, "near byte");
}

INSTANTIATE_TEST_SUITE_P(Formats, Damaged, testing::Values(".gz", ".zst"));

}  // namespace
}  // namespace wmtp::storage
