#include <bit>

#include "wmtp/kernels/moment_code_bits.h"
#include "wmtp/kernels/moment_codes.h"

namespace wmtp::kernels {
namespace {

constexpr CodeValues values_of(const CodeBits& bits) {
  CodeValues values{};
  for (std::size_t code = 0; code < values.size(); ++code)
    values[code] = std::bit_cast<float>(bits.value[code]);
  return values;
}

constexpr CodeValues kFirst = values_of(kSignedCodes), kSecond = values_of(kUnsignedCodes);

}  // namespace

const CodeValues& code_values(Moment moment) {
  return moment == Moment::first ? kFirst : kSecond;
}

}  // namespace wmtp::kernels
