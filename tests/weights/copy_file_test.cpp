// A seam for tests/parity: reads the safetensors file WMTP_PARITY_IN and writes its tensors, in
// another order, to WMTP_PARITY_OUT. Without these variables it copies a file
// of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "support/temp_dir.h"
#include "wmtp/weights/safetensors.h"
#include "wmtp/weights/tensor_sink.h"

namespace wmtp::weights {
namespace {

void copy_tensors(const std::filesystem::path& from, const std::filesystem::path& to) {
  const auto source = SafetensorsFile::open(from);
  std::vector<StoredTensor> reversed(source.tensors().rbegin(), source.tensors().rend());
  const auto sink = create_safetensors(to, reversed, source.metadata(), 0600);
  for (const StoredTensor& tensor : reversed)
    sink->put(tensor.name, source.bytes(*source.find(tensor.name)));
  sink->finish();
}

TEST(CopyFile, GivesTheSameBytes) {
  const char* in = std::getenv("WMTP_PARITY_IN");
  const char* out = std::getenv("WMTP_PARITY_OUT");
  if (in && out) return copy_tensors(in, out);
  test::TempDir folder;
  const auto sink = create_safetensors(
      folder / "a", {{"x", StoredDtype::U8, {5}, 0, 0}, {"y", StoredDtype::F32, {1}, 0, 0}}, {},
      0600);
  sink->put("x", std::vector<std::byte>(5, std::byte{7}));
  sink->put("y", std::vector<std::byte>(4, std::byte{8}));
  sink->finish();
  copy_tensors(folder / "a", folder / "b");
  EXPECT_EQ(test::slurp(folder / "a"), test::slurp(folder / "b"));
}

}  // namespace
}  // namespace wmtp::weights
