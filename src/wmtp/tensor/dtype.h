// Element types by name, as configuration, files and messages spell them.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <string_view>

namespace wmtp {

using DType = c10::ScalarType;
inline constexpr DType kFloat32 = c10::ScalarType::Float;
inline constexpr DType kFloat64 = c10::ScalarType::Double;
inline constexpr DType kBFloat16 = c10::ScalarType::BFloat16;
inline constexpr DType kFloat16 = c10::ScalarType::Half;
inline constexpr DType kInt32 = c10::ScalarType::Int;
inline constexpr DType kInt64 = c10::ScalarType::Long;

std::string_view name_of(DType dtype);         // fp32, fp64, bf16, fp16, int32, int64, ...
DType dtype_from_name(std::string_view name);  // also float32, bfloat16, float16; else Error config
std::size_t element_bytes(DType dtype);

}  // namespace wmtp
