#include <type_traits>

#include "wmtp/kernels/cuda/common.cuh"

namespace wmtp::kernels {
namespace {

constexpr int kEmbeddingThreads = 128;

template <class T, int N>
__global__ void __launch_bounds__(kEmbeddingThreads) embedding_kernel(const CudaEmbedding a) {
  const std::uint32_t packs_per_row = static_cast<std::uint32_t>(a.columns / N);
  const std::uint64_t index =
      static_cast<std::uint64_t>(blockIdx.x) * kEmbeddingThreads + threadIdx.x;
  const std::int64_t n = static_cast<std::int64_t>(index / packs_per_row);
  if (n >= a.tokens_count) return;
  const std::int64_t column = static_cast<std::int64_t>(index % packs_per_row) * N;
  float row[N];
  load<T, N>(a.weight, a.tokens[n] * a.weight_stride + column, row);
  store<T, N>(a.out, n * a.out_stride + column, row);
}

// A block per sorted position and strip of columns; only the first position of each token works and
// adds all its rows in token order.
template <class T, class G, int N>
__global__ void __launch_bounds__(kEmbeddingThreads)
    embedding_backward_kernel(const CudaEmbeddingBackward a) {
  const std::int64_t first = blockIdx.x;
  const std::int32_t token = a.sorted_tokens[first];
  if (first > 0 && a.sorted_tokens[first - 1] == token) return;
  const std::int64_t column =
      (static_cast<std::int64_t>(blockIdx.y) * kEmbeddingThreads + threadIdx.x) * N;
  if (column >= a.columns) return;
  const std::int64_t at = token * a.columns + column;
  float sum[N];
  if constexpr (std::is_same_v<G, float>)
    load_floats(static_cast<const float*>(a.dweight) + at, sum);
  else
    load<G, N>(a.dweight, at, sum);
  for (std::int64_t j = first; j < a.tokens_count && a.sorted_tokens[j] == token; ++j) {
    float row[N];
    load<T, N>(a.dout, a.order[j] * a.dout_stride + column, row);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += row[i];
  }
  if constexpr (std::is_same_v<G, float>)
    store_floats(static_cast<float*>(a.dweight) + at, sum);
  else
    store<G, N>(a.dweight, at, sum);
}

template <class T, int N>
int forward(const CudaEmbedding& a, cudaStream_t stream) {
  const std::int64_t packs = a.tokens_count * (a.columns / N);
  const auto blocks = static_cast<unsigned>((packs + kEmbeddingThreads - 1) / kEmbeddingThreads);
  embedding_kernel<T, N><<<blocks, kEmbeddingThreads, 0, stream>>>(a);
  return launch_status();
}

template <class T, class G, int N>
int backward(const CudaEmbeddingBackward& a, cudaStream_t stream) {
  const auto strips =
      static_cast<unsigned>((a.columns / N + kEmbeddingThreads - 1) / kEmbeddingThreads);
  const dim3 grid(static_cast<unsigned>(a.tokens_count), strips);
  embedding_backward_kernel<T, G, N><<<grid, kEmbeddingThreads, 0, stream>>>(a);
  return launch_status();
}

}  // namespace

int launch_embedding(const CudaEmbedding& a, void* stream) {
  return by_element(a.element, [&](auto type) {
    using T = decltype(type);
    constexpr int n = kPerPack<T>;
    const bool whole = a.columns % n == 0 && aligned(a.weight, a.weight_stride, n) &&
                       aligned(a.out, a.out_stride, n);
    return whole ? forward<T, n>(a, as_stream(stream)) : forward<T, 1>(a, as_stream(stream));
  });
}

int launch_embedding_backward(const CudaEmbeddingBackward& a, void* stream) {
  return by_element(a.element, [&](auto type) {
    using T = decltype(type);
    constexpr int n = kPerPack<T>;
    const bool whole =
        a.columns % n == 0 && aligned(a.dout, a.dout_stride, n) && aligned(a.dweight);
    return by_element(a.dweight_element, [&](auto sum_type) {
      using G = decltype(sum_type);
      return whole ? backward<T, G, n>(a, as_stream(stream))
                   : backward<T, G, 1>(a, as_stream(stream));
    });
  });
}

}  // namespace wmtp::kernels
