#include "wmtp/kernels/codes/moment_codes.h"

#include <algorithm>
#include <limits>

#include "wmtp/core/error.h"
#include "wmtp/kernels/cpu/code_search.h"
#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/support/checks.h"

namespace wmtp::kernels {
namespace cpu {
namespace {

// The last value <= y; 0 where there is none, as for NaN.
std::uint8_t last_not_above(const DynamicMap& values, float y) {
  const auto above =
      std::partition_point(values.begin() + 1, values.end(), [y](float v) { return v <= y; });
  return static_cast<std::uint8_t>(above - values.begin() - 1);
}

}  // namespace

CodeSearch::CodeSearch(Moment moment)
    : values_(code_values(moment)),
      least_with_history_(moment == Moment::second ? 0 : std::numeric_limits<float>::infinity()) {
  for (std::uint32_t upper = 0; upper < first_.size(); ++upper) {
    const bool negative = (upper & 0x8000u) != 0;
    const auto least = std::bit_cast<float>(upper << 16 | (negative ? 0xffffu : 0u));
    first_[upper] = last_not_above(values_, least);
  }
}

const CodeSearch& CodeSearch::of(Moment moment) {
  static const CodeSearch kFirst(Moment::first), kSecond(Moment::second);
  return moment == Moment::first ? kFirst : kSecond;
}

float quantize_block(const CodeSearch& search, std::span<const float> values, std::uint8_t* codes) {
  LargestMagnitude largest;
  for (const float value : values) largest.add(value);
  const float scale = largest.scale();
  for (std::size_t i = 0; i < values.size(); ++i) codes[i] = search.code_of(values[i], scale);
  return scale;
}

}  // namespace cpu

std::uint8_t zero_code(Moment moment) {
  return moment == Moment::first ? 127 : 0;
}

void quantize(Moment moment, const Tensor& values, const MomentCodes& to) {
  const std::int64_t size = values.numel();
  ArgChecks("quantize", values)
      .vector("values", values, size, kFloat32)
      .vector("codes", to.codes, size, at::kByte)
      .vector("scales", to.scales, num_code_blocks(size), kFloat32);
  WMTP_CHECK(values.is_cpu(), "quantize: moments are converted on the host");
  const cpu::CodeSearch& search = cpu::CodeSearch::of(moment);
  const float* from = values.const_data_ptr<float>();
  auto* codes = to.codes.data_ptr<std::uint8_t>();
  auto* scales = to.scales.data_ptr<float>();
  cpu::parallel_for(num_code_blocks(size), cpu::kBlocksOfAPart, [&](auto begin, auto end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t first = b * kCodeBlock, count = std::min(kCodeBlock, size - first);
      scales[b] = cpu::quantize_block(search, {from + first, static_cast<std::size_t>(count)},
                                      codes + first);
    }
  });
}

void dequantize(Moment moment, const MomentCodes& from, std::int64_t place, const Tensor& values) {
  const std::int64_t size = values.numel();
  ArgChecks("dequantize", values)
      .vector("values", values, size, kFloat32)
      .vector("codes", from.codes, size, at::kByte)
      .vector("scales", from.scales, num_code_blocks(place + size), kFloat32);
  WMTP_CHECK(values.is_cpu(), "dequantize: moments are converted on the host");
  const DynamicMap& map = code_values(moment);
  const auto* codes = from.codes.const_data_ptr<std::uint8_t>();
  const float* scales = from.scales.const_data_ptr<float>();
  auto* to = values.data_ptr<float>();
  cpu::parallel_for(size, cpu::kBlocksOfAPart * kCodeBlock, [&](auto begin, auto end) {
    for (std::int64_t i = begin; i < end; ++i)
      to[i] = map[codes[i]] * scales[(place + i) / kCodeBlock];
  });
}

}  // namespace wmtp::kernels
