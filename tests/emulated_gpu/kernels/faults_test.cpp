// What a GPU refuses or answers with silence: refusals carry the hardware's code, the rest ends the
// process with the place.
#include <gtest/gtest.h>

#include <cstdint>

#include "emulated_gpu/kernels/tiny_kernels.h"

namespace wmtp::emulated::testing {
namespace {

constexpr int kInvalidValue = 1, kInvalidConfiguration = 9;

TEST(EmulatedLaunch, HasTheLimitsOfTheHardware) {
  EXPECT_EQ(launch_nothing({1}, {1024}, 0), 0);
  EXPECT_EQ(launch_nothing({1}, {32, 32}, 0), 0);
  EXPECT_EQ(launch_nothing({2, 65535}, {1}, 0), 0);
  for (const Extent block : {Extent{1025}, Extent{32, 33}, Extent{1, 1, 65}, Extent{0},
                             Extent{1, 0}, Extent{1u << 16, 1u << 16}})
    EXPECT_EQ(launch_nothing({1}, block, 0), kInvalidConfiguration) << block.x << " " << block.y;
  for (const Extent grid : {Extent{0}, Extent{1, 0}, Extent{1, 1, 0}, Extent{1u << 31},
                            Extent{1, 65536}, Extent{1, 1, 65536}})
    EXPECT_EQ(launch_nothing(grid, {1}, 0), kInvalidConfiguration) << grid.x << " " << grid.y;
}

TEST(EmulatedLaunch, MoreSharedMemoryMustBeAskedFor) {
  constexpr int kMost = 227 * 1024;
  EXPECT_EQ(launch_nothing({1}, {1}, 48 * 1024), 0);
  EXPECT_EQ(launch_nothing({1}, {1}, 48 * 1024 + 1), kInvalidValue);
  EXPECT_EQ(launch_nothing_with_limit(kMost, kMost), 0);
  EXPECT_EQ(launch_nothing_with_limit(1001, 1000), kInvalidValue);
  EXPECT_EQ(launch_nothing_with_limit(0, kMost + 1), kInvalidValue);
  EXPECT_EQ(launch_nothing({1}, {1}, 0), 0) << "an error is told once";
}

TEST(EmulatedFaultDeathTest, AMisalignedAccess) {
  alignas(16) float values[8] = {};
  float out[4];
  load_pack(values, out);
  load_pack(values + 4, out);
  EXPECT_DEATH(load_pack(values + 1, out),
               "load_pack_kernel launched at .*faulty_kernels.cu:[0-9]+, block .0, 0, 0., thread "
               ".0, 0, 0.: misaligned access at .*faulty_kernels.cu:16: .*Four.* multiple of 16");
  EXPECT_DEATH(load_pack(values + 2, out), "misaligned access");
  store_double(values);
  EXPECT_DEATH(store_double(values + 1), "misaligned access .* multiple of 8");
}

TEST(EmulatedFaultDeathTest, WaitingForEver) {
  EXPECT_DEATH(wait_apart(),
               "deadlock: 16 waiting in the __shfl_sync at .*:[0-9]+, the first being "
               "thread 0 .* 16 waiting in the __syncthreads .* thread 16");
  EXPECT_DEATH(wait_at_two_barriers(), "__syncthreads at .*, while 32 threads wait in the one at");
}

TEST(EmulatedFaultDeathTest, ALaneThatCannotAnswer) {
  EXPECT_DEATH(shuffle_with_the_returned(),
               "__shfl_up_sync at .* names lane 0, which has returned");
  EXPECT_DEATH(return_from_a_shuffle(),
               "thread .31, 0, 0.: returned, while lane 0 of its warp waits for it in the "
               "__shfl_down_sync");
  EXPECT_DEATH(shuffle_beyond_the_block(), "names lane 8, which the block does not have");
  EXPECT_DEATH(shuffle_from_outside_the_mask(), "lane 0 reads lane 16, which its mask 0x0000ffff");
  EXPECT_DEATH(mix_operations(),
               "__ballot_sync .* while lane 0 of its mask waits in the "
               "__syncwarp");
}

TEST(EmulatedFaultDeathTest, AShuffleThatHardwareDoesNotHave) {
  EXPECT_DEATH(shuffle_without_naming_itself(), "its mask 0xfffffffe does not name lane 0 itself");
  EXPECT_DEATH(shuffle_in_thirds(), "a width of 3; it must be a power of two up to 32");
}

TEST(EmulatedFaultDeathTest, SharedMemoryThatIsNotTheBlocks) {
  write_behind_shared(-1);
  EXPECT_DEATH(write_behind_shared(0), "wrote byte 100 of its 100 bytes of dynamic shared memory");
  EXPECT_DEATH(write_behind_shared(255), "wrote byte 355");
  exceed_shared(195 * 1024);
  EXPECT_DEATH(exceed_shared(195 * 1024 + 4), "32768 bytes beside 199684 dynamic ones");
  index_shared(31);
  EXPECT_DEATH(index_shared(32), "index out of bounds at .*faulty_kernels.cu:[0-9]+: element 32");
}

TEST(EmulatedFaultDeathTest, MoreThreadsThanTheLaunchBounds) {
  EXPECT_DEATH(exceed_launch_bounds(),
               "bounded_kernel launched at .*: 65 threads to a block, but "
               "its __launch_bounds__ are 64");
}

TEST(EmulatedFaultDeathTest, AStackThatOverflowsTouchesNoOther) {
  EXPECT_EXIT(overflow_stack(), ::testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace wmtp::emulated::testing
