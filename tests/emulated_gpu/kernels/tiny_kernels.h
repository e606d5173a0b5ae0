// Kernels that each show one thing of the emulator; all pointers are host pointers.
#pragma once
#include <cstddef>
#include <cstdint>

namespace wmtp::emulated::testing {

struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

// What cudaGetLastError says after a launch of a kernel that does nothing.
int launch_nothing(Extent grid, Extent block, std::size_t shared_bytes);
// The same for a kernel that may have `limit` bytes of dynamic shared memory; the error of asking
// for them, if that is one.
int launch_nothing_with_limit(std::size_t shared_bytes, int limit);

// out[i] of thread i, in a block of `threads`.
void turn_around(int* out, int threads);         // threads - 1 - i, through shared memory
void take_from_left(float* out, int threads);    // i - 1, but without the barrier that needs
void sums_of_the_living(int* out, int threads);  // half the threads return before the barrier

enum class Shuffle { from, up, down, exclusive_or };
void shuffle(Shuffle kind, int argument, int width, double* out);  // of the lanes' numbers
struct Votes {
  unsigned ballot;
  int any, all;
};
void vote(unsigned predicates, Votes* out);  // by lane; 32 of them
void shuffle_in_halves(int* out);            // 32 lanes; each half's mask is its own
void count_unwritten(int* out, int blocks);  // [blocks]: values of shared memory that were NaN
void place_of(int* out, Extent grid, Extent block);  // its own place in the grid
void atomics(std::int64_t threads, int* sum, unsigned* largest, unsigned long long* long_sum,
             float* float_sum, double* double_sum);
void many_block_sums(double* out, int blocks, int rounds);  // [blocks], 1024 threads
void configured_at_length(int* out);  // 6 launches in all the ways that sources write them

// What must not go well.
void load_pack(const float* from, float* out);  // 16 bytes at once
void store_double(void* to);
void wait_apart();  // half a warp in a shuffle, half of it at a barrier
void wait_at_two_barriers();
void shuffle_with_the_returned();
void return_from_a_shuffle();
void shuffle_beyond_the_block();  // 40 threads, the second warp of 8 lanes takes a whole mask
void shuffle_from_outside_the_mask();
void mix_operations();
void shuffle_without_naming_itself();
void shuffle_in_thirds();  // a width of 3
void write_behind_shared(int bytes_behind);
void index_shared(int index);  // of 32
void exceed_launch_bounds();
void exceed_shared(int dynamic_bytes);  // beside 32 KiB of static ones
void overflow_stack();

}  // namespace wmtp::emulated::testing
