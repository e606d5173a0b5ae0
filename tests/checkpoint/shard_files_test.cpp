// The files that a rank writes of its shard.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/crash_store.h"
#include "support/expect_error.h"
#include "wmtp/checkpoint/save/save.h"
#include "wmtp/storage/safetensors_header.h"

namespace wmtp::checkpoint {
namespace {

using test::CrashStore;

// Spec example: a matrix [10, 6] and a vector [7] on 3 ranks, 23 elements each.
TEST(ShardFiles, BoxesOfTheFormatsExample) {
  CrashStore store;
  std::string boxes;
  const std::vector<std::byte> matrix(60 * 4), vector(7 * 4);
  for (int rank = 0; rank < 3; ++rank) {
    const std::filesystem::path folder = "/" + std::to_string(rank);
    store.create_folder(folder);
    store.create_folder(folder / "model");
    std::vector<TensorPiece> pieces;
    const layout::Range mine{rank * 23, std::min(67, (rank + 1) * 23)};
    const layout::Range m = layout::intersect(mine, {0, 60});
    pieces.push_back({"m",
                      storage::StoredDtype::F32,
                      {10, 6},
                      m,
                      std::span(matrix).first(static_cast<std::size_t>(m.size()) * 4)});
    if (mine.end > 60) pieces.push_back({"v", storage::StoredDtype::F32, {7}, {0, 7}, vector});
    for (const FileRecord& file : write_shards({store, folder, rank}, pieces, {}))
      for (const BoxRecord& box : file.boxes)
        boxes += fmt::format("{} {} {} {}\n", file.path.substr(12, 17), box.tensor,
                             storage::shape_text(box.offsets), storage::shape_text(box.shape));
  }
  EXPECT_EQ(boxes,
            "00001-model-00001 m [0, 0] [3, 6]\n00001-model-00003 m [3, 0] [1, 5]\n"
            "00002-model-00001 m [4, 0] [3, 6]\n00002-model-00002 m [3, 5] [1, 1]\n"
            "00002-model-00003 m [7, 0] [1, 4]\n"
            "00003-model-00001 m [8, 0] [2, 6]\n00003-model-00001 v [0] [7]\n"
            "00003-model-00002 m [7, 4] [1, 2]\n");
  const std::string& bytes = store.bytes("/1/model/shard-00002-model-00002-of-00003.safetensors");
  const auto header = storage::parse_safetensors_header(
      std::as_bytes(std::span(bytes.data(), bytes.size())), bytes.size(), "file");
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_EQ(header.metadata.at("DCP_VERSION"), "1.0");
  EXPECT_EQ(header.metadata.at("DCP_SHARDING_INFO"), R"({"m": {"saved_offsets": [3, 5]}})");
}

TEST(ShardFiles, ValuesThatAreReadWhileTheyAreWrittenMakeTheSameFiles) {
  CrashStore store;
  constexpr std::int64_t kRows = 400, kColumns = 1001;  // more than a block, and not a whole number
  std::vector<std::byte> values(kRows * kColumns * 4);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::byte>(i * 7 + i / 3);
  const layout::Range range{3, kRows * kColumns - 5};
  const auto mine =
      std::span<const std::byte>(values).subspan(12, static_cast<std::size_t>(range.size()) * 4);
  TensorPiece held{"m", storage::StoredDtype::F32, {kRows, kColumns}, range, mine};
  TensorPiece read = held;
  read.bytes = {};
  read.read = [mine](std::uint64_t first, std::span<std::byte> out) {
    std::ranges::copy(mine.subspan(first, out.size()), out.begin());
  };
  std::vector<std::vector<FileRecord>> records;
  for (const TensorPiece& piece : {held, read}) {
    const std::filesystem::path folder = piece.read ? "/read" : "/held";
    store.create_folder(folder);
    store.create_folder(folder / "model");
    records.push_back(write_shards({store, folder, 0}, std::span(&piece, 1), {}));
  }
  ASSERT_EQ(records[0].size(), records[1].size());
  for (std::size_t i = 0; i < records[0].size(); ++i) {
    EXPECT_EQ(records[0][i].sha256, records[1][i].sha256);
    EXPECT_EQ(records[0][i].crc32c, records[1][i].crc32c);
    EXPECT_EQ(store.bytes("/held/" + records[0][i].path),
              store.bytes("/read/" + records[1][i].path));
  }
  EXPECT_EQ(bytes_of(std::span(&read, 1)), mine.size());
}

TEST(ShardFiles, WhatPythonCannotReadIsRefused) {
  CrashStore store;
  const std::vector<std::byte> bytes(8);
  auto write = [&](TensorPiece piece) { check_pieces(std::span(&piece, 1)); };
  using enum storage::StoredDtype;
  write({"x", F32, {2}, {0, 2}, bytes});
  EXPECT_WMTP_ERROR(write({"x", I64, {1}, {0, 1}, bytes}), ErrorKind::internal, "floating-point");
  EXPECT_WMTP_ERROR(write({"x", F64, {}, {0, 1}, bytes}), ErrorKind::internal, "rank 1 or 2");
  EXPECT_WMTP_ERROR(write({"x", F32, {1, 1, 2}, {0, 2}, bytes}), ErrorKind::internal,
                    "rank 1 or 2");
  EXPECT_WMTP_ERROR(write({"x", F32, {2}, {0, 0}, {}}), ErrorKind::internal, "range");
  EXPECT_WMTP_ERROR(write({"x", F32, {2}, {0, 3}, bytes}), ErrorKind::internal, "range");
  EXPECT_WMTP_ERROR(write({"x", F32, {2}, {0, 1}, bytes}), ErrorKind::internal, "bytes");
}

}  // namespace
}  // namespace wmtp::checkpoint
