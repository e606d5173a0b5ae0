// Rows of the written examples as packed tensors: each row is a document, padding included (masked
// out).
#pragma once
#include <ATen/ops/tensor.h>

#include <limits>
#include <vector>

#include "wmtp/kernels/responses.h"

namespace wmtp::test {

using Row = std::vector<double>;
using MaskRow = std::vector<int>;

// The examples give seven digits.
inline constexpr double kTolerance = 2e-6, kNaN = std::numeric_limits<double>::quiet_NaN();

inline Tensor packed(const std::vector<Row>& rows, DType dtype = kFloat64) {
  Row flat;
  for (const Row& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  return at::tensor(flat, at::kDouble).to(dtype);
}

inline kernels::Responses responses(const std::vector<MaskRow>& masks, const Row& rewards,
                                    DType dtype = kFloat64) {
  std::vector<int> starts{0}, documents, flat;
  for (std::size_t d = 0; d < masks.size(); ++d) {
    flat.insert(flat.end(), masks[d].begin(), masks[d].end());
    documents.insert(documents.end(), masks[d].size(), static_cast<int>(d));
    starts.push_back(static_cast<int>(flat.size()));
  }
  return {at::tensor(starts, at::kInt), at::tensor(documents, at::kInt),
          at::tensor(flat, at::kInt).to(kernels::kMaskType),
          at::tensor(rewards, at::kDouble).to(dtype)};
}

inline Row numbers(const Tensor& tensor) {
  const Tensor flat = tensor.cpu().to(kFloat64).contiguous().view({-1});
  return Row(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
}

}  // namespace wmtp::test

// Element by element within `tolerance`.
#define EXPECT_NUMBERS(got, wanted, tolerance)                           \
  do {                                                                   \
    const ::wmtp::test::Row got_ = (got), wanted_ = wanted;              \
    ASSERT_EQ(got_.size(), wanted_.size());                              \
    for (std::size_t i_ = 0; i_ < got_.size(); ++i_)                     \
      EXPECT_NEAR(got_[i_], wanted_[i_], tolerance) << "element " << i_; \
  } while (false)
