#include "wmtp/weights/weight_source.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "tools/write_tensors.h"
#include "wmtp/weights/safetensors_tensor.h"
#include "wmtp/weights/weight_check.h"

namespace wmtp::weights {
namespace {

using test::TempDir;

std::unique_ptr<WeightSource> source_of(const std::filesystem::path& path,
                                        const std::map<std::string, Tensor>& tensors) {
  test::write_tensors(path, {tensors.begin(), tensors.end()});
  return std::make_unique<SafetensorsSource>(SafetensorsFile::open(path));
}

Tensor read_part(const WeightSource& source, std::string_view name, std::int64_t begin,
                 std::int64_t count) {
  const Tensor part = at::empty({count}, kFloat32);
  source.read(name, begin, part);
  return part;
}

TEST(WeightSource, ReadsAnyRangeOfElements) {
  TempDir folder;
  const Tensor w = at::randn({6, 5});
  const auto source = source_of(folder / "a", {{"w", w}, {"b", at::arange(3, kFloat32)}});
  const Tensor flat = w.view({-1});
  for (std::int64_t begin = 0; begin < 30; ++begin)
    for (std::int64_t count = 0; begin + count <= 30; count += 3)
      EXPECT_TRUE(read_part(*source, "w", begin, count).equal(flat.narrow(0, begin, count)));
  EXPECT_WMTP_ERROR(read_part(*source, "nobody", 0, 1), ErrorKind::config, "no tensor nobody");
}

TEST(WeightSource, RenamedRotaryRowsCanBeReadInParts) {
  TempDir folder;
  const Tensor meta = at::randn({12, 5});  // 3 heads of 4 rows, interleaved
  auto source = rename(source_of(folder / "a", {{"wq", meta}, {"other", at::randn({2})}}),
                       [](std::string_view name) -> std::optional<layout::MappedName> {
                         if (name != "wq") return std::nullopt;
                         return layout::MappedName{"q_proj", 4};
                       });
  const Tensor expected = meta.view({3, 2, 2, 5}).transpose(1, 2).reshape({-1});
  for (std::int64_t begin = 0; begin < 60; begin += 7)
    EXPECT_TRUE(read_part(*source, "q_proj", begin, 60 - begin)
                    .equal(expected.narrow(0, begin, 60 - begin)));
  EXPECT_TRUE(read_part(*source, "q_proj", 13, 9).equal(expected.narrow(0, 13, 9)));
  EXPECT_NE(source->find("other"), nullptr);
}

TEST(WeightSource, HeadsThatDoNotFitAreRefused) {
  TempDir folder;
  auto map = [](std::string_view) { return std::optional(layout::MappedName{"q", 4}); };
  EXPECT_WMTP_ERROR(rename(source_of(folder / "a", {{"wq", at::randn({10, 2})}}), map),
                    ErrorKind::config, "heads of 4 rows");
}

TEST(WeightSource, JoinedPartsMustNotShareNames) {
  TempDir folder;
  std::vector<std::unique_ptr<WeightSource>> parts;
  parts.push_back(source_of(folder / "a", {{"x", at::randn({2})}}));
  parts.push_back(source_of(folder / "b", {{"y", at::randn({3})}}));
  const auto both = join(std::move(parts));
  EXPECT_EQ(both->tensors().size(), 2u);
  EXPECT_TRUE(both->file_of(*both->find("y")).ends_with("/b"));
  parts.clear();
  parts.push_back(source_of(folder / "a", {{"x", at::randn({2})}}));
  parts.push_back(source_of(folder / "b", {{"x", at::randn({3})}}));
  EXPECT_WMTP_ERROR(join(std::move(parts)), ErrorKind::data, "tensor x is there twice");
}

TEST(WeightCheck, ListsEverythingInOneError) {
  TempDir folder;
  const auto source = source_of(
      folder / "a", {{"a", at::randn({2})}, {"c", at::randn({4})}, {"d", at::randn({1})}});
  WeightExpectations expected;
  expected.units = {{"u", {{"a", {2}}, {"b", {3}}, {"c", {5}}}}};
  for (const char* part :
       {"1 missing: b [3]", "1 unexpected: d [1]", "1 not as expected: c is [4], expected [5]"})
    EXPECT_WMTP_ERROR(check_weights(*source, expected), ErrorKind::config, part);
  expected.units = {{"u", {{"a", {2}}, {"c", {4}}}}, {"v", {{"d", {1}}}}};
  EXPECT_NO_THROW(check_weights(*source, expected));
}

}  // namespace
}  // namespace wmtp::weights
