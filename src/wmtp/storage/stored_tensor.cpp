#include "wmtp/storage/stored_tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace wmtp::storage {
namespace {

struct DtypeFact {
  std::string_view name;
  std::uint32_t bits;
};

constexpr std::array<DtypeFact, 22> kDtypes{{
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
}};

}  // namespace

std::string_view name_of(StoredDtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)].name;
}

std::optional<StoredDtype> stored_dtype(std::string_view name) {
  for (std::size_t i = 0; i < kDtypes.size(); ++i)
    if (kDtypes[i].name == name) return static_cast<StoredDtype>(i);
  return std::nullopt;
}

std::uint32_t bits_of(StoredDtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)].bits;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::int64_t numel(std::span<const std::int64_t> shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

std::optional<std::uint64_t> tensor_bytes(StoredDtype dtype, std::span<const std::int64_t> shape) {
  std::uint64_t bits = bits_of(dtype);
  for (const std::int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(bits, static_cast<std::uint64_t>(extent), &bits))
      return std::nullopt;
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

}  // namespace wmtp::storage
