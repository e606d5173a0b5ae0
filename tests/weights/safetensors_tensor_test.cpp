#include "wmtp/weights/safetensors_tensor.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace wmtp::weights {
namespace {

TEST(CopyElements, TakesARangeAndConverts) {
  const Tensor source = at::randn({7, 5}, at::kDouble);
  const StoredTensor stored{"w", StoredDtype::F64, {7, 5}, 0, 280};
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    const Tensor part = at::empty({2, 5}, at::TensorOptions().dtype(dtype));
    copy_elements(stored, bytes_of(source), 10, part);
    EXPECT_TRUE(part.equal(source.narrow(0, 2, 2).to(dtype)));
  }
}

TEST(CopyElements, CopesWithBytesThatAreNotAligned) {
  const Tensor source = at::randn({100'001}, at::kFloat);
  std::vector<std::byte> shifted(source.nbytes() + 1);
  std::memcpy(shifted.data() + 1, source.const_data_ptr(), source.nbytes());
  const StoredTensor stored{"w", StoredDtype::F32, {100'001}, 0, source.nbytes()};
  const Tensor out = at::empty({100'001}, at::kBFloat16);
  copy_elements(stored, std::span(shifted).subspan(1), 0, out);
  EXPECT_TRUE(out.equal(source.to(at::kBFloat16)));
}

TEST(CopyElements, RefusesTypesItCannotComputeWith) {
  const StoredTensor stored{"w", StoredDtype::F8_E4M3, {4}, 0, 4};
  std::vector<std::byte> bytes(4);
  EXPECT_WMTP_ERROR(copy_elements(stored, bytes, 0, at::empty({4}, at::kFloat)), ErrorKind::config,
                    "F8_E4M3");
}

}  // namespace
}  // namespace wmtp::weights
