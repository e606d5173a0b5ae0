// An operand as float8 in both memory orders (kernels/float8.h). A thread block reads a tile of 64
// x 64 numbers once; each order leaves it through shared memory as 16 bytes a thread.
#include "wmtp/kernels/cuda/float8_tile.cuh"

namespace wmtp::kernels {
namespace {

constexpr int kRows = 4;  // of a thread: the bytes of a word of the transposed order

template <class T>
constexpr int kThreads = kTile* kTile / (kRows * kPerPack<T>);

using RowTile = ByteTile<kRows, 16>;

struct Scales {
  float of_rows[kTile], of_columns[kTile];
};

// The scales of one order in this tile; the blocks that are first along the other axis write the
// inverses, too.
template <Float8Format kFormat, bool kRowwise>
__device__ __forceinline__ void open(float* scales, const float* amax, float* inverse,
                                     std::int64_t first, std::int64_t count, bool writes) {
  const int t = static_cast<int>(threadIdx.x);
  const std::int64_t index = kRowwise ? first + t : 0;
  if (t >= kTile || index >= (kRowwise ? count : 1)) return;
  const float scale = scale_of_amax<kFormat, kRowwise>(amax[index]);
  scales[t] = scale;
  if (writes && (kRowwise || first + t == 0)) inverse[index] = __fdiv_rn(1.0f, scale);
}

// A thread's four rows of a pack of columns. What lies outside of the matrix is zero, whatever the
// scales are.
template <class T, Float8Format kFormat>
struct Piece {
  static constexpr int N = kPerPack<T>, kRowWords = N / 4;
  float x[kRows][N];
  int there[kRows];

  __device__ __forceinline__ void load(const CudaFloat8Quantise& a, std::int64_t row,
                                       std::int64_t column, bool packed) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const T* const from = static_cast<const T*>(a.x) + (row + r) * a.x_stride;
      there[r] = row + r < a.rows ? load_part(from, column, a.columns, packed, x[r]) : 0;
    }
  }
  // Four neighbours in a row, and all rows in a column.
  __device__ __forceinline__ std::uint32_t row_word(int r, int w, float scale) const {
    const float* const from = x[r] + 4 * w;
    return float8_word<kFormat>(__fmul_rn(from[0], scale), __fmul_rn(from[1], scale),
                                __fmul_rn(from[2], scale), __fmul_rn(from[3], scale)) &
           bytes_there(there[r] - 4 * w);
  }
  __device__ __forceinline__ std::uint32_t column_word(int i, float scale) const {
    return float8_word<kFormat>(scaled(0, i, scale), scaled(1, i, scale), scaled(2, i, scale),
                                scaled(3, i, scale));
  }

 private:
  __device__ __forceinline__ float scaled(int r, int i, float scale) const {
    return i < there[r] ? __fmul_rn(x[r][i], scale) : 0.0f;
  }
  __device__ static std::uint32_t bytes_there(int count) {
    return count >= 4 ? 0xffffffffu : count <= 0 ? 0u : (1u << (8 * count)) - 1;
  }
};

// Both orders have scales of their own, and so bytes of their own.
template <class Numbers, class Tile>
__device__ __forceinline__ void fill_apart(const CudaFloat8Quantise& a, const Numbers& numbers,
                                           const Scales& scales, int group, int pack, RowTile& rows,
                                           Tile& columns) {
  constexpr int N = Numbers::N, W = Numbers::kRowWords;
  if (a.inverse_of_rows)
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int w = 0; w < W; ++w)
        rows.word[RowTile::place(group * kRows + r) + pack * W + w] =
            numbers.row_word(r, w, scales.of_rows[group * kRows + r]);
  if (a.inverse_of_columns)
#pragma unroll
    for (int i = 0; i < N; ++i)
      columns.word[Tile::place(pack * N + i) + group] =
          numbers.column_word(i, scales.of_columns[pack * N + i]);
}

// One scale: the bytes are converted once and turned.
template <class Numbers, class Tile>
__device__ __forceinline__ void fill_turned(const CudaFloat8Quantise& a, const Numbers& numbers,
                                            float scale, int group, int pack, RowTile& rows,
                                            Tile& columns) {
  constexpr int N = Numbers::N, W = Numbers::kRowWords;
#pragma unroll
  for (int w = 0; w < W; ++w) {
    std::uint32_t word[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      word[r] = numbers.row_word(r, w, scale);
      rows.word[RowTile::place(group * kRows + r) + pack * W + w] = word[r];
    }
    if (!a.inverse_of_columns) continue;
    turn(word);
#pragma unroll
    for (int i = 0; i < 4; ++i) columns.word[Tile::place(pack * N + 4 * w + i) + group] = word[i];
  }
}

template <class T, Float8Format kFormat, bool kRowwise>
__global__ void __launch_bounds__(kThreads<T>)
    quantise_kernel(const CudaFloat8Quantise a, bool packed) {
  constexpr int N = kPerPack<T>;
  using ColumnTile = ByteTile<N, 4>;
  __shared__ RowTile rows;
  __shared__ ColumnTile columns;
  __shared__ Scales scales;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kTile;
  if (a.inverse_of_rows)
    open<kFormat, kRowwise>(scales.of_rows, a.amax_of_rows, a.inverse_of_rows, row, a.rows,
                            blockIdx.x == 0);
  if (a.inverse_of_columns)
    open<kFormat, kRowwise>(scales.of_columns, a.amax_of_columns, a.inverse_of_columns, column,
                            a.columns, blockIdx.y == 0);
  const int pack = static_cast<int>(threadIdx.x) % (kTile / N);
  const int group = static_cast<int>(threadIdx.x) / (kTile / N);
  Piece<T, kFormat> piece;
  piece.load(a, row + group * kRows, column + pack * N, packed);
  __syncthreads();
  if (kRowwise)
    fill_apart(a, piece, scales, group, pack, rows, columns);
  else
    fill_turned(a, piece, a.inverse_of_rows ? scales.of_rows[0] : scales.of_columns[0], group, pack,
                rows, columns);
  __syncthreads();
  if (a.inverse_of_rows) write_lines(rows, a.by_rows, row, a.rows, column, a.columns);
  if (a.inverse_of_columns)
    write_lines(columns, a.by_columns, column, a.columns, row, a.padded_rows);
}

template <class T, Float8Format kFormat, bool kRowwise>
int launch(const CudaFloat8Quantise& a, void* stream) {
  const bool packed = aligned(a.x, a.x_stride, kPerPack<T>);
  const dim3 grid(float8_tiles(a.columns), float8_tiles(a.rows));
  quantise_kernel<T, kFormat, kRowwise><<<grid, kThreads<T>, 0, as_stream(stream)>>>(a, packed);
  return launch_status();
}

}  // namespace

int launch_float8_quantise(const CudaFloat8Quantise& a, void* stream) {
  return by_element(a.element, [&](auto element) -> int {
    using T = decltype(element);
    if (a.rowwise) {
      if (a.format != Float8Format::e4m3) return cudaErrorInvalidValue;
      return launch<T, Float8Format::e4m3, true>(a, stream);
    }
    return a.format == Float8Format::e4m3 ? launch<T, Float8Format::e4m3, false>(a, stream)
                                          : launch<T, Float8Format::e5m2, false>(a, stream);
  });
}

}  // namespace wmtp::kernels
