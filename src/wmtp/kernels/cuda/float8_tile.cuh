// Tiles of bytes in shared memory, through which the kernels of float8 turn a matrix.
#pragma once
#include "wmtp/kernels/cuda/float8.cuh"

namespace wmtp::kernels {

constexpr int kTile = 64, kWords = kTile / 4;  // words of 4 bytes in a line of a tile
constexpr int kChunk = 16, kChunks = kTile / kChunk;

// 64 lines of 64 bytes, and behind each kLines of them kGap words: a warp writes kLines apart.
template <int kLines, int kGap>
struct alignas(kChunk) ByteTile {
  std::uint32_t word[kTile * kWords + kTile / kLines * kGap];

  __device__ static int place(int line) { return line * kWords + line / kLines * kGap; }
};

// 4 x 4 bytes: what was byte i of word r becomes byte r of word i.
__device__ __forceinline__ void turn(std::uint32_t (&word)[4]) {
  const std::uint32_t ab_low = __byte_perm(word[0], word[1], 0x5140),
                      ab_high = __byte_perm(word[0], word[1], 0x7362),
                      cd_low = __byte_perm(word[2], word[3], 0x5140),
                      cd_high = __byte_perm(word[2], word[3], 0x7362);
  word[0] = __byte_perm(ab_low, cd_low, 0x5410);
  word[1] = __byte_perm(ab_low, cd_low, 0x7632);
  word[2] = __byte_perm(ab_high, cd_high, 0x5410);
  word[3] = __byte_perm(ab_high, cd_high, 0x7632);
}

// The tile's lines into those of `out`, which have `length` bytes each.
template <class Tile>
__device__ __forceinline__ void write_lines(const Tile& tile, std::uint8_t* out,
                                            std::int64_t first_line, std::int64_t num_lines,
                                            std::int64_t first_byte, std::int64_t length) {
  const bool whole = (reinterpret_cast<std::uintptr_t>(out) | length) % kChunk == 0;
  for (int t = static_cast<int>(threadIdx.x); t < kTile * kChunks;
       t += static_cast<int>(blockDim.x)) {
    const std::int64_t line = first_line + t / kChunks, at = first_byte + t % kChunks * kChunk;
    if (line >= num_lines || at >= length) continue;
    const uint4* const from = reinterpret_cast<const uint4*>(
        &tile.word[Tile::place(t / kChunks) + t % kChunks * (kChunk / 4)]);
    std::uint8_t* const to = out + line * length + at;
    if (whole) {
      *reinterpret_cast<uint4*>(to) = *from;
      continue;
    }
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(from);
    for (int i = 0; i < kChunk && at + i < length; ++i) to[i] = bytes[i];
  }
}

// One block at least: of nothing there are scales all the same.
inline unsigned float8_tiles(std::int64_t extent) {
  return extent == 0 ? 1u : static_cast<unsigned>((extent + kTile - 1) / kTile);
}

}  // namespace wmtp::kernels
