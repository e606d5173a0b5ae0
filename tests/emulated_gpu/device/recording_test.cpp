// What a recording holds and refuses (recording.h), as a program meets it: by the service `record`.
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "support/cuda_main.h"
#include "wmtp/core/error.h"
#include "wmtp/kernels/cuda/launchers.h"
#include "wmtp/kernels/grad_norm.h"
#include "wmtp/tensor/cuda_plugin.h"
#include "wmtp/tensor/dtype.h"
#include "wmtp/tensor/recorded_pieces.h"
#include "wmtp/tensor/side_stream.h"

namespace wmtp::emulated::testing {
namespace {

const c10::Device kGpu(c10::kCUDA, 0);

at::TensorOptions on_gpu(DType dtype = kFloat32) {
  return at::TensorOptions().dtype(dtype).device(kGpu);
}

std::unique_ptr<RecordedPieces> record(const std::function<void()>& work) {
  return std::make_unique<RecordedPieces>(work);
}

void expect_refused(const std::function<void()>& work, const std::string& reason) {
  SCOPED_TRACE(reason);
  try {
    record(work);
    ADD_FAILURE() << "it was recorded";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(reason));
  }
}

// An accumulator, to which a kernel adds the sum of 64 squares.
struct Sum {
  Tensor total = at::zeros({}, on_gpu(kFloat64));
  Tensor partial = at::empty({kernels::kMaxPartialBlocks}, on_gpu(kFloat64));
  void add(const Tensor& numbers) const { kernels::add_squared_norm(numbers, total); }
  double value() const { return total.item<double>(); }
  // The same in two steps: what the kernel is given names addresses and keeps no memory.
  kernels::CudaSquaredNorm arguments(const Tensor& numbers) const {
    return {kernels::Element::fp32, numbers.data_ptr(), partial.data_ptr<double>(),
            total.data_ptr<double>(), 64};
  }
  static void launch(const kernels::CudaSquaredNorm& args) {
    ASSERT_EQ(cuda_tables().kernels->squared_norm(args, cuda_tables().services.current_stream()),
              0);
  }
};

TEST(Recording, ComputesNothingAndEveryReplayDoesOnce) {
  const Sum sum;
  const Tensor ones = at::ones({64}, on_gpu()), two = at::full({2, 2}, 2, on_gpu()),
               counter = at::zeros({4}, on_gpu());
  Tensor product = at::zeros({2, 2}, on_gpu());
  const auto graph = record([&] {
    sum.add(ones);
    counter.narrow(0, 1, 2).add_(1);
    at::mm_out(product, two, two);
  });
  EXPECT_EQ(sum.value(), 0);
  EXPECT_EQ(product.sum().item<float>(), 0);
  for (int replay = 1; replay <= 3; ++replay) {
    graph->replay();
    EXPECT_EQ(sum.value(), 64 * replay);
    EXPECT_EQ(counter.sum().item<float>(), 2 * replay);
  }
  EXPECT_EQ(product.sum().item<float>(), 32);
}

TEST(Recording, HoldsNumbersOfTheHostAndNotItsWork) {
  const Tensor counter = at::zeros({1}, on_gpu());
  Tensor number = at::ones({}, kFloat32);
  int step = 1, calls = 0;
  const auto graph = record([&] {
    ++calls;
    counter.add_(step);
    counter.add_(number);
  });
  step = 10;
  number.fill_(10);
  graph->replay();
  graph->replay();
  EXPECT_EQ(counter.item<float>(), 4);
  EXPECT_EQ(calls, 1);
}

// Results lie where the recording found them, whatever their operator returned this time.
TEST(Recording, ReadsWhatItsInputsHoldThen) {
  const Tensor rows = at::arange(4, on_gpu()).unsqueeze(1), index = at::zeros({3}, on_gpu(kInt64));
  Tensor chosen, resized = at::empty({0}, on_gpu());
  const auto graph = record([&] {
    const Tensor next = at::add(index, 1);
    chosen = at::index_select(rows, 0, next).t();
    at::add_out(resized, chosen, chosen);
  });
  EXPECT_EQ(resized.sizes(), at::IntArrayRef({1, 3}));
  for (const int first : {0, 2}) {
    index.fill_(first);
    graph->replay();
    EXPECT_EQ(chosen.sum().item<float>(), 3 * (first + 1));
    EXPECT_EQ(resized.sum().item<float>(), 6 * (first + 1));
  }
}

TEST(Recording, RefusesWhatACaptureDoes) {
  const Tensor there = at::ones({2}, on_gpu()), here = at::ones({2}), rows = at::arange(2);
  const std::string copy = "a copy between host and GPU while work is recorded";
  expect_refused([&] { there.copy_(here, true); }, copy);
  expect_refused([&] { here.copy_(there, true); }, copy);
  expect_refused([&] { (void)here.to(kGpu); }, copy);
  expect_refused([&] { (void)there.sum().item<float>(); }, "waits for aten::_local_scalar_dense");
  expect_refused([] { cuda_tables().services.synchronize(); }, "a wait for the GPU");
  EXPECT_THROW(record([] { record([] {}); }), wmtp::Error);
  expect_refused([] { cuda_tables().services.recorder(); }, "a recording while work is recorded");
  expect_refused([&] { (void)at::index_select(there, 0, rows); }, "host memory is read");
  expect_refused([&] { there.index_put_({rows[0]}, there[0].clone()); }, "host memory is read");
  expect_refused([&] { there.uniform_(); }, "aten::uniform_ while work is recorded");
  expect_refused(
      [&] {
        const c10::StreamGuard guard(c10::Stream(c10::Stream::DEFAULT, kGpu));
        there.add_(1);
      },
      "work for a stream that does not follow");
  const auto graph = record([&] { there.add_(1); });
  graph->replay();
  EXPECT_EQ(there.sum().item<float>(), 4);
}

TEST(Recording, ShowsWhatIsReadOfTheReplayBefore) {
  const Sum sum;
  Tensor unwritten;  // nobody else gets its memory
  const auto graph = record([&] {
    unwritten = at::empty({64}, on_gpu());
    sum.add(unwritten);
    unwritten.fill_(1);
  });
  for (int replay = 0; replay < 2; ++replay) {
    sum.total.zero_();
    graph->replay();
    EXPECT_TRUE(std::isnan(sum.value())) << replay;
  }
}

TEST(Recording, ShowsMemoryThatIsReadWhenItWasGivenBack) {
  enum class Back { within, older_within, later };
  for (const Back back : {Back::within, Back::older_within, Back::later}) {
    SCOPED_TRACE(static_cast<int>(back));
    const Sum sum;
    Tensor numbers = at::ones({64}, on_gpu());
    const auto graph = record([&] {
      if (back == Back::within) numbers = at::ones({64}, on_gpu());
      const kernels::CudaSquaredNorm args = sum.arguments(numbers);
      if (back == Back::within) numbers.reset();
      Sum::launch(args);
      if (back == Back::older_within) numbers.reset();
    });
    numbers.reset();
    graph->replay();
    EXPECT_TRUE(std::isnan(sum.value()));
  }
}

TEST(Recording, HoldsSideStreamsThatItWaitedFor) {
  const Sum sum;
  const Tensor numbers = at::zeros({64}, on_gpu());
  SideStream side(kGpu), other(kGpu);
  SideStream::Mark done, before;
  other.run([&] { sum.add(numbers); });
  other.set(before);
  const auto graph = record([&] {
    numbers.add_(1);
    side.run([&] { sum.add(numbers); });
    side.set(done);
    done.wait();
    numbers.zero_();
  });
  graph->replay();
  graph->replay();
  EXPECT_EQ(sum.value(), 128);
  EXPECT_THROW(done.wait(), c10::Error);
  expect_refused([&] { before.wait(); }, "not of the same recording");
  expect_refused([&] { side.run([&] { sum.add(numbers); }); }, "before the work of a side stream");
}

// Without work between them two actions share a gap.
TEST(RecordedPieces, HaveTheHostsActionsBetweenThem) {
  const Tensor counter = at::zeros({1}, on_gpu());
  std::vector<float> seen;
  const auto look = [&] { seen.push_back(counter.item<float>()); };
  EXPECT_FALSE(is_recording());
  const RecordedPieces pieces([&] {
    EXPECT_TRUE(is_recording());
    counter.add_(1);
    between_pieces(look);
    between_pieces([&] { counter.add_(10); });
    counter.add_(100);
    between_pieces(look);
    counter.mul_(2);
  });
  EXPECT_FALSE(is_recording());
  EXPECT_EQ(pieces.num_pieces(), 3U);
  EXPECT_TRUE(seen.empty());
  EXPECT_EQ(counter.item<float>(), 0);
  pieces.replay();
  EXPECT_THAT(seen, ::testing::ElementsAre(1, 111));
  EXPECT_EQ(counter.item<float>(), 222);
  pieces.replay();
  EXPECT_THAT(seen, ::testing::ElementsAre(1, 111, 223, 333));
  between_pieces(look);  // nothing is recorded: at once
  EXPECT_EQ(seen.back(), 666);
}

// What one piece took is there for those behind it, until it is given back.
TEST(RecordedPieces, ShareMemoryUntilItIsGivenBack) {
  const Sum sum;
  Tensor numbers;
  for (const bool early : {false, true}) {
    sum.total.zero_();
    const RecordedPieces pieces([&] {
      numbers = at::ones({64}, on_gpu());
      between_pieces([] {});
      const kernels::CudaSquaredNorm args = sum.arguments(numbers);
      if (early) numbers.reset();
      Sum::launch(args);
      between_pieces([] {});
      numbers.reset();
    });
    for (int replay = 1; replay <= 2; ++replay) {
      pieces.replay();
      if (early)
        EXPECT_TRUE(std::isnan(sum.value()));
      else
        EXPECT_EQ(sum.value(), 64 * replay);
    }
  }
}

TEST(RecordedPieces, LeaveNoStreamBehindOne) {
  const Sum sum;
  const Tensor numbers = at::ones({64}, on_gpu());
  SideStream side(kGpu);
  SideStream::Mark done;
  const auto beside = [&](bool joins_first) {
    return [&, joins_first] {
      side.run([&] { sum.add(numbers); });
      side.set(done);
      if (joins_first) done.wait();
      between_pieces([] {});
      done.wait();
    };
  };
  expect_refused(beside(false), "before the work of a side stream");
  expect_refused(beside(true), "not of the same recording");
  EXPECT_EQ(sum.value(), 0);
  record([&] { sum.add(numbers); })->replay();
  EXPECT_EQ(sum.value(), 64);
}

TEST(RecordedPieces, AreGivenUpWithTheirWork) {
  const Tensor counter = at::zeros({1}, on_gpu());
  EXPECT_THROW(record([&] {
                 counter.add_(1);
                 between_pieces([] {});
                 counter.add_(1);
                 throw std::runtime_error("given up");
               }),
               std::runtime_error);
  EXPECT_FALSE(is_recording());
  counter.add_(1);
  EXPECT_EQ(counter.item<float>(), 1);
}

}  // namespace
}  // namespace wmtp::emulated::testing

int main(int argc, char** argv) {
  return wmtp::test::run_all_tests(argc, argv);
}
