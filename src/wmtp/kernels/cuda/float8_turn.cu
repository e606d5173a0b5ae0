// The other order of a matrix in float8 that has one scale: the same bytes, turned. A thread turns
// a square of 4 x 4 of them.
#include "wmtp/kernels/cuda/float8_tile.cuh"

namespace wmtp::kernels {
namespace {

constexpr int kSide = 4, kTurnThreads = kTile / kSide * (kTile / kSide);

__device__ __forceinline__ std::uint32_t load_word(const std::uint8_t* from, bool packed) {
  if (packed) return *reinterpret_cast<const std::uint32_t*>(from);
  std::uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < kSide; ++i) word |= static_cast<std::uint32_t>(from[i]) << (8 * i);
  return word;
}

__global__ void __launch_bounds__(kTurnThreads) turn_kernel(const CudaFloat8Turn a, bool packed) {
  using TurnedTile = ByteTile<kSide, 4>;
  __shared__ TurnedTile tile;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kTile;
  const int across = static_cast<int>(threadIdx.x) % kWords;
  const int down = static_cast<int>(threadIdx.x) / kWords;
  std::uint32_t word[kSide] = {};
  if (column + across * kSide < a.columns)
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
      const std::int64_t line = row + down * kSide + r;
      if (line < a.rows)
        word[r] = load_word(a.by_rows + line * a.columns + column + across * kSide, packed);
    }
  turn(word);
#pragma unroll
  for (int i = 0; i < kSide; ++i) tile.word[TurnedTile::place(across * kSide + i) + down] = word[i];
  __syncthreads();
  write_lines(tile, a.by_columns, column, a.columns, row, a.rows);
}

}  // namespace

int launch_float8_turn(const CudaFloat8Turn& a, void* stream) {
  if (a.rows % kChunk != 0 || a.columns % kChunk != 0) return cudaErrorInvalidValue;
  const dim3 grid(float8_tiles(a.columns), float8_tiles(a.rows));
  turn_kernel<<<grid, kTurnThreads, 0, as_stream(stream)>>>(a, aligned(a.by_rows));
  return launch_status();
}

}  // namespace wmtp::kernels
