// R x C matrix; K is the contracted axis of a form.
#include "wmtp/kernels/float8.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/cpu/views.h"

namespace wmtp::kernels {
namespace {

struct Scales {
  Tensor multiplier, inverse;
};

Scales scales_of(const Tensor& amax, const Float8Quantise& args) {
  const Scales scales{at::empty(amax.sizes(), amax.options()),
                      at::empty(amax.sizes(), amax.options())};
  const Float8Format format = format_of(args.recipe, args.role);
  for (std::int64_t i = 0; i < amax.numel(); ++i) {
    const float scale = float8_scale(amax.data_ptr<float>()[i], format, args.recipe);
    scales.multiplier.data_ptr<float>()[i] = scale;
    scales.inverse.data_ptr<float>()[i] = 1 / scale;
  }
  return scales;
}

}  // namespace

std::uint8_t float8_of(float x, Float8Format format) {
  if (std::isnan(x)) return 0x7f;
  const Float8Shape& shape = format == Float8Format::e4m3 ? kE4m3Shape : kE5m2Shape;
  const std::uint32_t sign = std::signbit(x) ? 0x80 : 0;
  const float size = std::min(std::fabs(x), shape.largest);
  if (size < shape.least_normal)
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(size + shape.anchor) -
                                             std::bit_cast<std::uint32_t>(shape.anchor)));
  const int cut = 23 - shape.mantissa_bits;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(size);
  const std::uint32_t rounded = bits + (1u << (cut - 1)) - 1 + ((bits >> cut) & 1);
  const auto below = static_cast<std::uint32_t>(127 + shape.least_exponent - 1);
  return static_cast<std::uint8_t>(sign | ((rounded >> cut) - (below << shape.mantissa_bits)));
}

float float8_scale(float amax, Float8Format format, Float8Recipe recipe) {
  double size = amax;
  if (size < kLeastFloat8Amax) size = kLeastFloat8Amax;  // written so that a NaN stays one
  const auto scale = static_cast<float>(largest_of(format) / size);
  if (recipe != Float8Recipe::rowwise || !(scale > 0)) return scale;
  return std::ldexp(1.0f, std::ilogb(scale));
}

namespace cpu {

void quantise(const Float8Quantise& args, Float8Forms& forms) {
  const Tensor fp32_RC = args.x_RC.to(kFloat32);
  const Rows<float> x(fp32_RC);
  const Float8Format format = format_of(args.recipe, args.role);
  const bool rowwise = args.recipe == Float8Recipe::rowwise;
  auto write = [&](Float8Matrix& form, const Tensor& amax, bool turned) {
    if (!form.defined()) return;
    const Scales scales = scales_of(amax, args);
    form.inverse = scales.inverse;
    const float* const multiplier = scales.multiplier.const_data_ptr<float>();
    auto* const out = static_cast<std::uint8_t*>(form.values_RK.data_ptr());
    const std::int64_t contracted = form.values_RK.size(1);
    parallel_for(x.rows, grain_of(x.columns), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r)
        for (std::int64_t c = 0; c < x.columns; ++c) {
          const float scale = multiplier[!rowwise ? 0 : turned ? c : r];
          out[turned ? c * contracted + r : r * contracted + c] =
              float8_of(x[r][c] * scale, format);
        }
    });
  };
  write(forms.rows, args.amax.of_rows, false);
  write(forms.columns, args.amax.of_columns, true);
}

void raise_amax(const Tensor& amax, const Tensor& written_RC) {
  if (!amax.defined()) return;
  const auto bits = [](float size) { return std::bit_cast<std::uint32_t>(size); };
  float& largest = *amax.data_ptr<float>();
  const float found = float8_amax(written_RC, Float8Recipe::tensorwise).of_rows.item<float>();
  if (bits(found) > bits(largest)) largest = found;
}

}  // namespace cpu
}  // namespace wmtp::kernels
