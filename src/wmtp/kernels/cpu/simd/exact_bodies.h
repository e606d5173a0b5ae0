// The vectorised bodies of one instruction set that give the bits of their definitions: the
// including source names the namespace and is compiled without contraction. A product and the sum
// it goes into are rounded apart, as they are where a processor has no instruction for both, so
// that the bits which random numbers round, and codes, do not depend on the processor.
#if defined(__x86_64__)
// Its functions are inlined always: the linker finds none to share.
#include <immintrin.h>
#endif

#include <cstdint>

#include "wmtp/kernels/codes/nf4_bits.h"
#include "wmtp/kernels/cpu/simd/table.h"

#if defined(__AVX512F__)
#define WMTP_VEC_BYTES 64
#elif defined(__AVX2__)
#define WMTP_VEC_BYTES 32
#else
#define WMTP_VEC_BYTES 16
#endif

namespace wmtp::kernels::cpu::WMTP_ISA {
namespace {

// The order matters, and each is a part of this namespace.
// clang-format off
#include "wmtp/kernels/cpu/simd/vec.h"
#include "wmtp/kernels/cpu/simd/halves.h"
#include "wmtp/kernels/cpu/simd/draws.h"
#include "wmtp/kernels/cpu/simd/adamw_terms.h"
#include "wmtp/kernels/cpu/simd/rounded_master.h"
#include "wmtp/kernels/cpu/simd/coded_moment.h"
#include "wmtp/kernels/cpu/simd/nf4_body.h"
// clang-format on

}  // namespace

// A copy of the range is nothing that the stores below could change: its numbers stay in registers.
void adamw_rounded(const RoundedRange& range, std::int64_t begin, std::int64_t end) {
  const RoundedRange a = range;
  Draws draws;
  for (std::int64_t first = begin; first < end; first += kDrawnElements) {
    const std::int64_t count = end - first < kDrawnElements ? end - first : kDrawnElements;
    draws.draw(a, first, count);
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) update_rounded<true>(a, first + i, draws.at(i));
    if (i < count) update_rounded<false>(a, first + i, draws.at(i), count - i);
  }
}

void adamw_8bit(const CodedRange& range, std::int64_t begin, std::int64_t end) {
  const CodedRange a = range;
  Draws draws;
  MomentBlock m1, m2;
  for (std::int64_t block = begin; block < end; ++block) {
    const std::int64_t first = block * kElementsOfACodeBlock, left = a.size - first;
    const std::int64_t count = left < kElementsOfACodeBlock ? left : kElementsOfACodeBlock;
    m1.read(a.exp_avg, block, count), m2.read(a.exp_avg_sq, block, count);
    // Only a bf16 master is rounded.
    if (a.param_bf16) draws.draw(a, first, count);
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
      update_coded<true>(a, first + i, m1.values + i, m2.values + i, draws.at(i));
    if (i < count)
      update_coded<false>(a, first + i, m1.values + i, m2.values + i, draws.at(i), count - i);
    m1.write(a.exp_avg, block, count), m2.write(a.exp_avg_sq, block, count);
  }
}

// Each of the 16 products is formed and rounded once a block, not once an element.
void nf4_dequantize(const std::uint8_t* packed, float scale, std::int64_t size, float* out) {
  float products[16];
  __builtin_memcpy(products, kNf4TableBits.value, sizeof products);
  for (float& product : products) product *= scale;
  std::int64_t i = 0;
#if WMTP_VEC_BYTES == 64
  const Vec all = load(products);
  for (; i + kLanes <= size; i += kLanes)
    store(out + i, __builtin_shuffle(all, nf4_indices(packed + i / 2)));
#elif WMTP_VEC_BYTES == 32
  const Vec low = load(products), high = load(products + 8);
  for (; i + kLanes <= size; i += kLanes)
    store(out + i, __builtin_shuffle(low, high, nf4_indices(packed + i / 2)));
#endif
  for (; i + 2 <= size; i += 2) {
    out[i] = products[packed[i / 2] >> 4];
    out[i + 1] = products[packed[i / 2] & 15];
  }
  if (i < size) out[i] = products[packed[i / 2] >> 4];
}

}  // namespace wmtp::kernels::cpu::WMTP_ISA
