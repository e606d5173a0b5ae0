#include "wmtp/models/upload.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.h"
#include "wmtp/core/rng.h"

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

std::vector<std::uint64_t> streams(const model::Batch& batch) {
  const Tensor& streams_SD = batch.dropout->streams_SD;
  const auto* first = streams_SD.data_ptr<std::int64_t>();
  return {first, first + streams_SD.numel()};
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
  const std::vector<std::string> sites{"b", "a"};
  const model::Batch batch = upload_tokens(rows.view(), 1, at::ones({4}), DropoutKey{9, 12, sites});
  ASSERT_TRUE(batch.dropout);
  EXPECT_EQ(batch.dropout->seed, 9u);
  EXPECT_EQ(batch.dropout->sites, sites);
  EXPECT_EQ(streams(batch),
            (std::vector<std::uint64_t>{
                stream_id("dropout/b/12/70"), stream_id("dropout/b/12/1099511627776"),
                stream_id("dropout/a/12/70"), stream_id("dropout/a/12/1099511627776")}));
  EXPECT_EQ(values(batch.dropout->document_N), (std::vector<std::int32_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(values(batch.dropout->position_N), (std::vector<std::int32_t>{0, 1, 2, 0, 1}));
}

TEST(Upload, AModelWithoutDropoutHasNoPlacesOfIt) {
  EXPECT_FALSE(upload_tokens(Rows().view(), 1, at::ones({4}), DropoutKey{9, 12}).dropout);
}

// 200 tokens in three documents, of which the first fifty of each are no targets.
struct LongRows {
  std::vector<std::int32_t> tokens = std::vector<std::int32_t>(200), positions = tokens;
  std::vector<std::int32_t> doc_start{0, 60, 140, 200};
  std::vector<std::uint8_t> mask = std::vector<std::uint8_t>(200, 1);
  LongRows() {
    for (std::size_t i = 0; i < 200; ++i) tokens[i] = static_cast<std::int32_t>(1000 + i);
    for (const std::int32_t start : {0, 60, 140})
      std::fill_n(mask.begin() + start, 50, std::uint8_t{0});
  }
  model::Batch upload(BatchShape shape) const {
    return upload_tokens({tokens, positions, doc_start, mask}, 2, at::ones({4}), {}, shape);
  }
};

TEST(Upload, RoundedShapesHaveTheSameTargetsAndRowsThatFillUp) {
  const LongRows rows;
  const model::Batch exact = rows.upload(BatchShape::exact);
  const model::Batch rounded = rows.upload(BatchShape::rounded);
  for (std::size_t head = 0; head < 2; ++head) {
    const model::HeadTargets& targets = rounded.heads[head];
    EXPECT_FALSE(exact.heads[head].present_M.defined());
    EXPECT_EQ(targets.count(), 64);  // for 50 targets
    const std::vector<std::int32_t> all = values(targets.rows_M);
    EXPECT_TRUE(std::ranges::is_sorted(all, std::ranges::less_equal())) << "a row comes twice";
    std::vector<std::int32_t> found_rows, found_targets;
    for (std::int64_t i = 0; i < targets.count(); ++i)
      if (targets.present_M.select(0, i).item<float>() != 0) {
        found_rows.push_back(all[static_cast<std::size_t>(i)]);
        found_targets.push_back(values(targets.targets_M)[static_cast<std::size_t>(i)]);
      }
    EXPECT_EQ(found_rows, values(exact.heads[head].rows_M));
    EXPECT_EQ(found_targets, values(exact.heads[head].targets_M));
  }
}

TEST(Upload, RoundedDocumentsAreFollowedByEmptyOnes) {
  LongRows rows;
  const kernels::Documents few = rows.upload(BatchShape::rounded).documents;
  EXPECT_EQ(few.start, (std::vector<std::int32_t>{0, 60, 140, 200, 200}));
  EXPECT_EQ(few.max_length, 128);
  EXPECT_FALSE(few.uniform);
  rows.doc_start = {0, 100, 200};  // rows of one length
  const kernels::Documents uniform = rows.upload(BatchShape::rounded).documents;
  EXPECT_EQ(uniform.start, rows.doc_start);
  EXPECT_EQ(uniform.max_length, 100);
  EXPECT_TRUE(uniform.uniform);
}

TEST(Upload, MoreRowsThanTokensThereAreNone) {
  Rows rows;
  const model::Batch batch = upload_tokens(rows.view(), 2, at::ones({4}), {}, BatchShape::rounded);
  for (const model::HeadTargets& head : batch.heads)
    EXPECT_EQ(values(head.rows_M), (std::vector<std::int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(batch.heads[1].present_M.sum().item<float>(), 1);
}

// As many streams as documents, with those that only fill up.
TEST(Upload, RoundedShapesHaveStreamsOfRoundedDocuments) {
  LongRows rows;
  const std::vector<std::uint64_t> samples{1, 2, 3};
  const std::vector<std::string> sites{"b", "a"};
  const model::Batch batch =
      upload_tokens({rows.tokens, rows.positions, rows.doc_start, rows.mask, samples}, 1,
                    at::ones({4}), DropoutKey{9, 12, sites}, BatchShape::rounded);
  EXPECT_EQ(batch.documents.start.size(), 5);
  EXPECT_EQ(streams(batch), (std::vector<std::uint64_t>{
                                stream_id("dropout/b/12/1"), stream_id("dropout/b/12/2"),
                                stream_id("dropout/b/12/3"), 0, stream_id("dropout/a/12/1"),
                                stream_id("dropout/a/12/2"), stream_id("dropout/a/12/3"), 0}));
}

TEST(Upload, DropoutNeedsEverySample) {
  Rows rows;
  rows.samples.pop_back();
  const std::vector<std::string> sites{"a"};
  EXPECT_WMTP_ERROR(upload_tokens(rows.view(), 1, at::ones({4}), DropoutKey{.sites = sites}),
                    ErrorKind::internal, "sample id");
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
