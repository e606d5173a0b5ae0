// Frozen shards with matrices in NF4: what they keep, what they give back, what they refuse.
#include "wmtp/parallel/quantized_shard.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "parallel/quantized_units.h"
#include "parallel/recording_communicator.h"
#include "support/expect_error.h"
#include "wmtp/comm/groups.h"

namespace wmtp::parallel {
namespace {

using test::quantized_units;
using test::read_numbers;
using wmtp::test::RecordingCommunicator;

const ReadNf4 kNothingStored;

layout::BucketPlan bucket(int world) {
  return layout::shard_plan(quantized_units(), world)[1].frozen;
}

QuantizedShard filled(const layout::BucketPlan& plan, DType plain) {
  QuantizedShard shard(plan, /*rank=*/0, at::TensorOptions().dtype(plain), plain);
  shard.fill(plan, {read_numbers, kNothingStored, nullptr});
  return shard;
}

Tensor values_of(const QuantizedShard& shard, const layout::BucketPlan& plan, DType dtype) {
  const Tensor flat = at::zeros({plan.shard_numel()}, dtype);
  shard.dequantize(flat);
  return flat;
}

TEST(QuantizedShard, ACopyHasTheBitsOfTheFirst) {
  const layout::BucketPlan plan = bucket(1);
  const QuantizedShard first = filled(plan, kBFloat16);
  QuantizedShard copy(plan, /*rank=*/0, at::TensorOptions().dtype(kBFloat16), kBFloat16);
  copy.copy_from(first);
  EXPECT_TRUE(values_of(copy, plan, kFloat32).equal(values_of(first, plan, kFloat32)));
  EXPECT_EQ(copy.bytes(), first.bytes());
  for (std::size_t i = 0; i < first.tensors().size(); ++i)
    EXPECT_NE(copy.tensors()[i].data_ptr(), first.tensors()[i].data_ptr());
}

TEST(QuantizedShard, MatricesGoThroughBothLevelsAndTheRestStaysAsItIs) {
  const layout::BucketPlan plan = bucket(1);
  for (const DType plain : {kFloat32, kBFloat16})
    for (const DType computed : {kFloat32, kBFloat16, kFloat64}) {
      const Tensor flat = values_of(filled(plan, plain), plan, computed);
      for (std::size_t p = 0; p < plan.params().size(); ++p) {
        const layout::ParamSpec& param = plan.params()[p];
        Tensor expected = at::empty({param.numel()}, kFloat32);
        read_numbers(param, 0, expected);
        expected = expected.to(plain).to(kFloat32);
        if (param.quantized) {
          const Tensor packed = at::empty({param.numel() / 2}, at::kByte);
          const Tensor absmax = at::empty({param.numel() / 64}, kFloat32);
          ASSERT_EQ(kernels::nf4_quantize(expected, packed, absmax), -1);
          expected = at::empty({param.numel()}, computed);
          kernels::nf4_dequantize(packed, kernels::nf4_quantize_scales(absmax), expected);
        }
        const layout::Range range = plan.param_range(p);
        EXPECT_TRUE(flat.narrow(0, range.begin, range.size()).equal(expected.to(computed)))
            << param.name;
      }
    }
}

TEST(QuantizedShard, KeepsWhatIsPlannedAndLittleMoreThanHalfAByteAWeight) {
  for (const int world : {1, 2, 3, 5})
    for (int rank = 0; rank < world; ++rank) {
      const layout::BucketPlan plan = bucket(world);
      const QuantizedShard shard(plan, rank, at::TensorOptions().dtype(kBFloat16), kBFloat16);
      EXPECT_EQ(shard.bytes(), QuantizedShard::bytes_of(plan, rank, kBFloat16)) << world << rank;
    }
  const layout::ParamSpec large{"w", {4096, 4096}, false, /*quantized=*/true};
  EXPECT_EQ(QuantizedShard::bytes_of(layout::BucketPlan({large}, 1), 0, kBFloat16),
            (std::int64_t{1} << 23) + (1 << 18) + 4 * (1 << 10));
}

TEST(QuantizedShard, ANumberThatIsNotFiniteIsNamedWithItsPlace) {
  const layout::BucketPlan plan = bucket(1);
  QuantizedShard shard(plan, 0, at::TensorOptions().dtype(kFloat32), kFloat32);
  const ReadParam read = [](const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
    read_numbers(param, begin, out);
    if (param.name == "block0.a") out[5 * 192 + 7].fill_(std::numeric_limits<double>::infinity());
  };
  EXPECT_WMTP_ERROR(shard.fill(plan, {read, kNothingStored, nullptr}), ErrorKind::data,
                    "block0.a has inf in row 5, column 7");
}

// Codes and scales of a file are not the nearest ones: they come back as they are, bit by bit.
TEST(QuantizedShard, WhatIsStoredInNf4IsKept) {
  const layout::BucketPlan plan = bucket(1);
  for (const bool nested : {true, false}) {
    const Tensor packed = at::empty({130 * 192 / 2}, at::kByte).fill_(0x4c);
    kernels::Nf4Scales scales{at::empty({390}, at::kByte).fill_(9),
                              at::empty({2}, kFloat32).fill_(0.5), 0.25f, 0};
    if (!nested) scales = {at::empty({390}, kFloat32).fill_(0.125), {}, 0, 0};
    const ReadNf4 stored = [&](const layout::ParamSpec& param, std::int64_t begin,
                               std::int64_t count) -> std::optional<kernels::Nf4Weights> {
      if (param.name != "block0.a") return std::nullopt;
      EXPECT_EQ(begin, 0);
      EXPECT_EQ(count, 130 * 192);
      return kernels::Nf4Weights{packed, scales};
    };
    const ReadParam read = [](const layout::ParamSpec& param, std::int64_t begin,
                              const Tensor& out) {
      EXPECT_NE(param.name, "block0.a");
      read_numbers(param, begin, out);
    };
    QuantizedShard shard(plan, 0, at::TensorOptions().dtype(kFloat32), kFloat32);
    shard.fill(plan, {read, stored, nullptr});
    const Tensor flat = values_of(shard, plan, kFloat32);
    const Tensor expected = at::empty({130 * 192}, kFloat32);
    kernels::nf4_dequantize(packed, scales, expected);
    EXPECT_TRUE(flat.narrow(0, 0, 130 * 192).equal(expected)) << nested;
    const Tensor computed = values_of(filled(plan, kFloat32), plan, kFloat32);
    const layout::Range rest{130 * 192, plan.numel()};
    EXPECT_TRUE(
        flat.narrow(0, rest.begin, rest.size()).equal(computed.narrow(0, rest.begin, rest.size())));
  }
}

// Without a dtype of frozen weights the same bytes are kept whatever is computed with: a run on a
// GPU, which computes in bf16, goes on from one on a CPU.
TEST(QuantizedUnits, AreRoundedBeforeOnlyWhereThatIsAskedFor) {
  const auto group = comm::make_single("all", c10::Device(c10::kCPU));
  auto kept = [&group](DType computed, std::optional<DType> stored) {
    ParallelOptions options;
    options.param_dtype = computed;
    options.frozen_dtype = stored;
    Runtime runtime(quantized_units(), options, {group.get(), group.get()});
    runtime.fill(read_numbers);
    return runtime.states()[1].quantized->tensors();
  };
  const std::vector<Tensor> fp32 = kept(kFloat32, {}), bf16 = kept(kBFloat16, {});
  const std::vector<Tensor> rounded = kept(kFloat32, kBFloat16);
  ASSERT_EQ(fp32.size(), 7u);  // of two matrices bytes, codes and groups, and a norm
  for (std::size_t i = 0; i < 6; ++i) EXPECT_TRUE(fp32[i].equal(bf16[i])) << i;
  EXPECT_FALSE(fp32[0].equal(rounded[0]));
}

// Slots are shared under every strategy, for the values of a whole model would undo what 4 bits
// save.
TEST(QuantizedUnits, AreDequantisedIntoSlots) {
  RecordingCommunicator group;
  for (const Strategy strategy :
       {Strategy::no_shard, Strategy::shard_grad_op, Strategy::full_shard}) {
    ParallelOptions options;
    options.strategy = strategy;
    Runtime runtime(quantized_units(), options, {&group, &group});
    const std::int64_t slot = runtime.states()[2].plan.frozen.padded_numel() +
                              runtime.states()[2].plan.trained.padded_numel();
    const bool sharded_root = strategy == Strategy::full_shard;
    EXPECT_EQ(runtime.buffer_bytes() - (strategy == Strategy::no_shard ? 0 : 2 * 4 * 256),
              4 * (2 * slot + (sharded_root ? 512 : 0)))
        << name_of(strategy);
  }
}

TEST(QuantizedUnits, AreGatheredAsNumbersWhereTheModelIsWritten) {
  const auto group = comm::make_single("all", c10::Device(c10::kCPU));
  ParallelOptions options;
  options.param_dtype = kBFloat16;
  options.frozen_dtype = kBFloat16;
  Runtime runtime(quantized_units(), options, {group.get(), group.get()});
  runtime.fill(read_numbers);
  std::map<std::string, Tensor> wholes;
  runtime.gather_full([&](const layout::ParamSpec& param, const Tensor& whole) {
    wholes[param.name] = whole.clone();
  });
  ASSERT_EQ(wholes.size(), 9u);
  const layout::BucketPlan plan = bucket(1);
  const Tensor flat = values_of(filled(plan, kBFloat16), plan, kFloat32);
  EXPECT_EQ(wholes["block0.a"].sizes(), c10::IntArrayRef({130, 192}));
  EXPECT_TRUE(wholes["block0.a"].view({-1}).equal(flat.narrow(0, 0, 130 * 192)));
}

}  // namespace
}  // namespace wmtp::parallel
