// A seam for tests/parity: reads the safetensors file WMTP_PARITY_IN and writes its tensors, in
// another order and in small pieces, to WMTP_PARITY_OUT. Without these variables it copies a file
// of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "support/temp_dir.h"
#include "wmtp/checkpoint/safetensors.h"

namespace wmtp::checkpoint {
namespace {

void copy_tensors(const std::filesystem::path& from, const std::filesystem::path& to) {
  const auto source = SafetensorsFile::open(from);
  std::vector<StoredTensor> reversed(source.tensors().rbegin(), source.tensors().rend());
  SafetensorsWriter writer(to, reversed, source.metadata());
  for (const StoredTensor& tensor : writer.tensors()) {
    auto bytes = source.bytes(*source.find(tensor.name));
    while (!bytes.empty()) {
      const std::size_t piece = std::min<std::size_t>(bytes.size(), 1000);
      writer.write(bytes.first(piece));
      bytes = bytes.subspan(piece);
    }
  }
  writer.commit();
}

TEST(CopyFile, GivesTheSameBytes) {
  const char* in = std::getenv("WMTP_PARITY_IN");
  const char* out = std::getenv("WMTP_PARITY_OUT");
  if (in && out) return copy_tensors(in, out);
  test::TempDir folder;
  SafetensorsWriter writer(folder / "a",
                           {{"x", StoredDtype::U8, {5}, 0, 0}, {"y", StoredDtype::F32, {1}, 0, 0}});
  writer.write(std::vector<std::byte>(9, std::byte{7}));
  writer.commit();
  copy_tensors(folder / "a", folder / "b");
  EXPECT_EQ(test::slurp(folder / "a"), test::slurp(folder / "b"));
}

}  // namespace
}  // namespace wmtp::checkpoint
