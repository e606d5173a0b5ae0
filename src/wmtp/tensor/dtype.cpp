#include "wmtp/tensor/dtype.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "wmtp/core/error.h"

namespace wmtp {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 6> kNames{{
    {"fp32", kFloat32},
    {"fp64", kFloat64},
    {"bf16", kBFloat16},
    {"fp16", kFloat16},
    {"int32", kInt32},
    {"int64", kInt64},
}};
constexpr std::array<std::pair<std::string_view, DType>, 4> kAliases{{
    {"float32", kFloat32},
    {"float64", kFloat64},
    {"bfloat16", kBFloat16},
    {"float16", kFloat16},
}};

}  // namespace

std::string_view name_of(DType dtype) {
  for (const auto& [name, value] : kNames)
    if (value == dtype) return name;
  return c10::toString(dtype);
}

DType dtype_from_name(std::string_view name) {
  for (const auto& [known, value] : kNames)
    if (known == name) return value;
  for (const auto& [known, value] : kAliases)
    if (known == name) return value;
  throw Error(ErrorKind::config, "tensor", fmt::format("unknown dtype \"{}\"", name),
              "known are bf16, fp16, fp32, fp64");
}

std::size_t element_bytes(DType dtype) {
  return c10::elementSize(dtype);
}

}  // namespace wmtp
