#include "wmtp/models/upload.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace wmtp::models {
namespace {

struct Rows {
  std::vector<std::int32_t> tokens{5, 6, 7, 8, 9}, positions{3, 4, 5, 0, 1}, doc_start{0, 3, 5};
  std::vector<std::uint8_t> mask{1, 1, 1, 1, 1};
  std::vector<std::uint64_t> samples{70, std::uint64_t{1} << 40};
  TokenView view() const { return {tokens, positions, doc_start, mask, samples}; }
};

std::vector<std::int32_t> values(const Tensor& ints) {
  return {ints.data_ptr<std::int32_t>(), ints.data_ptr<std::int32_t>() + ints.numel()};
}

TEST(Upload, EvaluationHasNoDropout) {
  const Rows rows;
  const model::Batch batch = upload_tokens(rows.view(), 2, at::ones({4}));
  EXPECT_FALSE(batch.dropout);
  EXPECT_EQ(values(batch.heads[1].rows_M), (std::vector<std::int32_t>{0}));
  EXPECT_EQ(values(batch.heads[1].targets_M), (std::vector<std::int32_t>{7}));
}

// Places are counted inside the document, whatever its positions begin with.
TEST(Upload, DropoutIsKeyedBySampleAndPlace) {
  const Rows rows;
  const model::Batch batch = upload_tokens(rows.view(), 1, at::ones({4}), DropoutKey{9, 12});
  ASSERT_TRUE(batch.dropout);
  EXPECT_EQ(batch.dropout->seed, 9u);
  EXPECT_EQ(batch.dropout->step, 12);
  EXPECT_EQ(batch.dropout->sample_ids, rows.samples);
  EXPECT_EQ(values(batch.dropout->document_N), (std::vector<std::int32_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(values(batch.dropout->position_N), (std::vector<std::int32_t>{0, 1, 2, 0, 1}));
}

TEST(Upload, DropoutNeedsEverySample) {
  Rows rows;
  rows.samples.pop_back();
  EXPECT_WMTP_ERROR(upload_tokens(rows.view(), 1, at::ones({4}), DropoutKey{}), ErrorKind::internal,
                    "sample id");
}

std::vector<std::int64_t> targets(const std::vector<std::int32_t>& doc_start,
                                  const std::vector<std::uint8_t>& mask, int num_heads) {
  const std::vector<std::int32_t> zeros(mask.size(), 0);
  return count_targets({zeros, zeros, doc_start, mask}, num_heads);
}

// Vectors V01, V05 and V06.
TEST(Upload, AHeadHasTargetsInItsOwnDocumentOnly) {
  using Counts = std::vector<std::int64_t>;
  EXPECT_EQ(targets({0, 6}, {0, 0, 1, 1, 1, 0}, 3), (Counts{3, 3, 2}));
  EXPECT_EQ(targets({0, 4, 7}, {0, 1, 1, 1, 0, 1, 1}, 2), (Counts{5, 3}));
  EXPECT_EQ(targets({0, 2}, {0, 1}, 3), (Counts{1, 0, 0}));
}

}  // namespace
}  // namespace wmtp::models
