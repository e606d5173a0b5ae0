// Memory for the copy of a save that is made ready before the save.
#include "wmtp/run/checkpoints/staging.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace wmtp::run {
namespace {

using Staged = StagingArena::Staged;

constexpr std::int64_t kMuch = std::int64_t{1} << 40;

std::vector<StatePiece> pieces_of(const Tensor& values) {
  return {{checkpoint::Part::model,
           "weight",
           {values.numel()},
           {0, values.numel()},
           parallel::Master(values)}};
}

TEST(StagingArena, WhatIsReadyNeedsNoBudget) {
  const Tensor values = at::arange(100'000, at::kFloat);
  StagingArena prepared, bare;
  prepared.prepare(pieces_of(values), kMuch);
  EXPECT_EQ(prepared.stage(pieces_of(values), 0), Staged::copied);
  const checkpoint::TensorPiece& copy = prepared.model().at(0);
  EXPECT_NE(static_cast<const void*>(copy.bytes.data()), values.const_data_ptr());
  EXPECT_EQ(std::memcmp(copy.bytes.data(), values.const_data_ptr(), values.nbytes()), 0);
  EXPECT_EQ(bare.stage(pieces_of(values), 0), Staged::borrowed);
}

// Masters in planes are written as the fp32 numbers they are, copied or read where they lie, in
// blocks that begin anywhere.
TEST(StagingArena, PlanesAreJoined) {
  const Tensor values = at::arange(1000, at::kFloat).div_(3);
  const auto planes = parallel::Master::in_planes(1000, at::TensorOptions());
  planes.write(values);
  const std::vector<StatePiece> pieces{
      {checkpoint::Part::model, "weight", {1000}, {100, 900}, planes.narrow({100, 900})}};
  const std::byte* wanted = static_cast<const std::byte*>(values.const_data_ptr()) + 400;
  StagingArena arena;
  EXPECT_EQ(arena.stage(pieces, kMuch), Staged::copied);
  EXPECT_EQ(arena.model().at(0).dtype, storage::StoredDtype::F32);
  ASSERT_EQ(arena.model().at(0).bytes.size(), 3200);
  EXPECT_EQ(std::memcmp(arena.model().at(0).bytes.data(), wanted, 3200), 0);
  StagingArena without;
  EXPECT_EQ(without.stage(pieces, 0), Staged::borrowed);
  const checkpoint::TensorPiece& borrowed = without.model().at(0);
  EXPECT_EQ(borrowed.dtype, storage::StoredDtype::F32);
  ASSERT_TRUE(borrowed.read);
  std::vector<std::byte> read(1200);
  for (const std::uint64_t first : {0, 4, 2000}) {
    borrowed.read(first, read);
    EXPECT_EQ(std::memcmp(read.data(), wanted + first, read.size()), 0) << first;
  }
}

TEST(StagingArena, NothingIsTakenBeyondTheBudget) {
  const Tensor values = at::zeros({1000}, at::kFloat);
  StagingArena arena;
  arena.prepare(pieces_of(values), 3999);
  EXPECT_EQ(arena.stage(pieces_of(values), 0), Staged::borrowed);
  EXPECT_EQ(arena.stage(pieces_of(values), 4096), Staged::copied);
}

// More than any address space has: the allocation fails in its thread, and the next save is as
// ever.
TEST(StagingArena, AFailureInTheThreadIsNone) {
  const Tensor endless = at::zeros({1}, at::kFloat).expand({std::int64_t{1} << 58});
  const Tensor values = at::zeros({1000}, at::kFloat);
  StagingArena arena;
  arena.prepare(pieces_of(endless), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(arena.stage(pieces_of(values), 0), Staged::borrowed);
  EXPECT_EQ(arena.stage(pieces_of(values), kMuch), Staged::copied);
}

TEST(StagingArena, MayEndWhileItPrepares) {
  const Tensor values = at::zeros({1}, at::kFloat).expand({std::int64_t{16} << 20});
  StagingArena arena;
  arena.prepare(pieces_of(values), kMuch);
}

}  // namespace
}  // namespace wmtp::run
