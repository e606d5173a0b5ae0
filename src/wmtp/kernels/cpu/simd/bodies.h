// All vectorised bodies of one instruction set: the including source names its namespace.
#include <cstdint>

#include "wmtp/kernels/cpu/simd/table.h"

#define WMTP_VEC_BYTES 64

namespace wmtp::kernels::cpu::WMTP_ISA {

// These are compiled apart, with options of their own (exact_bodies.h).
void adamw_rounded(const RoundedRange& range, std::int64_t begin, std::int64_t end);
void adamw_8bit(const CodedRange& range, std::int64_t begin, std::int64_t end);
void nf4_dequantize(const std::uint8_t* packed, float scale, std::int64_t size, float* out);

namespace {

// The order matters, and each is a part of this namespace.
// clang-format off
#include "wmtp/kernels/cpu/simd/vec.h"
#include "wmtp/kernels/cpu/simd/halves.h"
#include "wmtp/kernels/cpu/simd/norm_bodies.h"
#include "wmtp/kernels/cpu/simd/rope_bodies.h"
#include "wmtp/kernels/cpu/simd/swiglu_bodies.h"
#include "wmtp/kernels/cpu/simd/loss_bodies.h"
#include "wmtp/kernels/cpu/simd/adamw_terms.h"
#include "wmtp/kernels/cpu/simd/optimizer_bodies.h"
// clang-format on

#define WMTP_NAME_OF(isa) #isa
#define WMTP_NAME(isa) WMTP_NAME_OF(isa)

}  // namespace

extern const SimdKernels kKernels{
    WMTP_NAME(WMTP_ISA),
    rms_norm,
    rms_norm_backward,
    rope,
    rope_backward,
    swiglu,
    swiglu_backward,
    cross_entropy,
    adamw,
    adamw_rounded,
    adamw_8bit,
    squared_norm,
    squared_norm_bf16,
    nf4_dequantize,
};

}  // namespace wmtp::kernels::cpu::WMTP_ISA
