// The suite itself; *_test.cpp so that it is part of the binary. W ranks, N elements.
#include "comm/conformance.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "wmtp/comm/groups.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::test {
namespace {

using comm::Communicator;

// Integers up to 2^8, so that sums over 4 ranks are exact in bf16 too... (i * 5 + 3 r) mod 31.
Tensor values_N(const Communicator& group, DType dtype, std::int64_t n, int rank) {
  const auto options = c10::TensorOptions().dtype(kInt64).device(group.device());
  return (at::arange(n, options) * 5 + 3 * rank).remainder(31).to(dtype);
}

Tensor sum_N(const Communicator& group, DType dtype, std::int64_t n) {
  Tensor sum = values_N(group, kInt64, n, 0);
  for (int r = 1; r < group.world(); ++r) sum = sum + values_N(group, kInt64, n, r);
  return sum.to(dtype);
}

void check_all_gather(Communicator& group, DType dtype, std::int64_t n) {
  const Tensor mine = values_N(group, dtype, n, group.rank());
  const Tensor out = at::zeros({n * group.world()}, mine.options());
  group.all_gather(out, mine).wait();
  std::vector<Tensor> parts;
  for (int r = 0; r < group.world(); ++r) parts.push_back(values_N(group, dtype, n, r));
  EXPECT_TRUE(at::equal(out, at::cat(parts)));

  // In place: the input is this rank's slice of the output (how the FSDP gather slots work).
  const Tensor slots = at::zeros({n * group.world()}, mine.options());
  const Tensor own = slots.narrow(0, n * group.rank(), n);
  own.copy_(mine);
  group.all_gather(slots, own).wait();
  EXPECT_TRUE(at::equal(slots, at::cat(parts)));
}

void check_reductions(Communicator& group, DType dtype, std::int64_t n) {
  const std::int64_t whole = n * group.world();
  const Tensor in = values_N(group, dtype, whole, group.rank());
  const Tensor expected = sum_N(group, dtype, whole);
  const Tensor slice = at::zeros({n}, in.options());
  group.reduce_scatter(slice, in).wait();
  EXPECT_TRUE(at::equal(slice, expected.narrow(0, n * group.rank(), n)));
  EXPECT_TRUE(at::equal(in, values_N(group, dtype, whole, group.rank())))
      << "the input was changed";

  const Tensor own = in.narrow(0, n * group.rank(), n);
  group.reduce_scatter(own, in).wait();
  EXPECT_TRUE(at::equal(own, expected.narrow(0, n * group.rank(), n))) << "in place";

  const Tensor total = values_N(group, dtype, whole, group.rank());
  group.all_reduce(total).wait();
  EXPECT_TRUE(at::equal(total, expected));
}

void check_broadcast(Communicator& group, DType dtype, std::int64_t n) {
  for (int root = 0; root < group.world(); ++root) {
    const Tensor tensor = values_N(group, dtype, n, group.rank());
    group.broadcast(tensor, root).wait();
    EXPECT_TRUE(at::equal(tensor, values_N(group, dtype, n, root))) << "root " << root;
  }
}

std::string bytes_of_rank(int rank) {
  std::string text(static_cast<std::size_t>(rank * 37), static_cast<char>('a' + rank));
  text += std::string("\0\n\xff", 3);
  return rank == 1 ? "" : text;
}

void check_bytes(Communicator& group) {
  const auto all = group.gather_bytes(bytes_of_rank(group.rank()));
  ASSERT_EQ(all.size(), static_cast<std::size_t>(group.world()));
  for (int r = 0; r < group.world(); ++r)
    EXPECT_EQ(all[static_cast<std::size_t>(r)], bytes_of_rank(r));
  for (int root = 0; root < group.world(); ++root) {
    const auto gathered = group.gather_bytes(bytes_of_rank(group.rank()), root);
    if (group.rank() != root)
      EXPECT_TRUE(gathered.empty());
    else
      EXPECT_EQ(gathered, all);
  }
  for (const std::string& text : group.gather_bytes("")) EXPECT_EQ(text, "");
}

// Several collectives under way at once, waited for out of order.
void check_async(Communicator& group) {
  std::vector<Tensor> tensors;
  std::vector<comm::Work> works;
  for (int i = 0; i < 8; ++i) {
    tensors.push_back(values_N(group, kFloat32, 1000 + i, group.rank() + i));
    works.push_back(group.all_reduce(tensors.back(), "async"));
  }
  for (int i = 7; i >= 0; --i) {
    works[static_cast<std::size_t>(i)].wait();
    works[static_cast<std::size_t>(i)].wait();
    Tensor expected = at::zeros({1000 + i}, tensors[0].options());
    for (int r = 0; r < group.world(); ++r) expected += values_N(group, kFloat32, 1000 + i, r + i);
    EXPECT_TRUE(at::equal(tensors[static_cast<std::size_t>(i)], expected));
  }
  EXPECT_TRUE(works[0].done());
}

void check_misuse(Communicator& group) {
  const Tensor small = values_N(group, kFloat32, 3, 0);
  const Tensor wrong = at::zeros({3 * group.world() + 1}, small.options());
  EXPECT_WMTP_ERROR(group.all_gather(wrong, small), ErrorKind::internal, "elements are not");
  EXPECT_WMTP_ERROR(group.reduce_scatter(small, wrong), ErrorKind::internal, "elements are not");
  EXPECT_WMTP_ERROR(group.broadcast(small, group.world()), ErrorKind::internal, "root");
  const Tensor strided = at::zeros({4, 4}, small.options()).t();
  EXPECT_WMTP_ERROR(group.all_reduce(strided), ErrorKind::internal, "not contiguous");
}

void check_log(Communicator& group) {
  const auto before = group.log()->last().number;
  comm::Work work = group.all_reduce(values_N(group, kFloat32, 5, 0), "unit 7");
  EXPECT_EQ(group.log()->last().number, before + 1);
  EXPECT_EQ(group.log()->last().what, "all_reduce 5 fp32 unit 7");
  EXPECT_FALSE(group.log()->last().finished);
  work.wait();
  EXPECT_TRUE(group.log()->last().finished);
}

}  // namespace

void check_conformance(Communicator& group) {
  comm::verify_group(group);
  for (const DType dtype : {kFloat32, kBFloat16, kFloat64, kInt64})
    for (const std::int64_t n : {0, 1, 5, 127, 4099}) {
      SCOPED_TRACE(testing::Message() << name_of(dtype) << " x " << n);
      check_all_gather(group, dtype, n);
      check_reductions(group, dtype, n);
      check_broadcast(group, dtype, n);
    }
  check_bytes(group);
  check_async(group);
  check_misuse(group);
  check_log(group);
  group.barrier("end");
}

TEST(Communicator, SingleConforms) {
  const auto group = comm::make_single("one", c10::Device(c10::kCPU));
  check_conformance(*group);
}

TEST(Communicator, NcclWithoutPluginIsAClearError) {
  EXPECT_WMTP_ERROR(comm::make_nccl({}, nullptr), ErrorKind::config, "built without CUDA");
}

}  // namespace wmtp::test
