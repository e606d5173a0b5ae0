#include "wmtp/weights/safetensors_tensor.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <utility>

#include "wmtp/core/error.h"

namespace wmtp::weights {
namespace {

constexpr std::array<std::pair<StoredDtype, DType>, 10> kDtypes{{
    {StoredDtype::F32, c10::ScalarType::Float},
    {StoredDtype::BF16, c10::ScalarType::BFloat16},
    {StoredDtype::F16, c10::ScalarType::Half},
    {StoredDtype::F64, c10::ScalarType::Double},
    {StoredDtype::BOOL, c10::ScalarType::Bool},
    {StoredDtype::U8, c10::ScalarType::Byte},
    {StoredDtype::I8, c10::ScalarType::Char},
    {StoredDtype::I16, c10::ScalarType::Short},
    {StoredDtype::I32, c10::ScalarType::Int},
    {StoredDtype::I64, c10::ScalarType::Long},
}};

// Conversion goes through an aligned buffer of this size: small enough for the cache.
constexpr std::int64_t kChunkElements = std::int64_t{1} << 16;

// The first touch of fresh memory costs more than the copy unless its pages are large. Only a hint:
// memory that is in use already, or of another kind, stays as it is.
void ask_for_large_pages(const Tensor& dst) {
  constexpr std::uintptr_t kLarge = std::uintptr_t{2} << 20;
  const auto begin = reinterpret_cast<std::uintptr_t>(dst.data_ptr());
  const std::uintptr_t first = (begin + kLarge - 1) / kLarge * kLarge;
  const std::uintptr_t last = (begin + dst.nbytes()) / kLarge * kLarge;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

void convert(const std::byte* source, DType source_dtype, const Tensor& dst) {
  const auto item_bytes = static_cast<std::int64_t>(element_bytes(source_dtype));
  const Tensor flat = dst.view({-1});
  const bool aligned = reinterpret_cast<std::uintptr_t>(source) % element_bytes(source_dtype) == 0;
  const auto options = at::TensorOptions().dtype(source_dtype);
  if (aligned) {
    flat.copy_(at::from_blob(const_cast<std::byte*>(source), {dst.numel()}, options));
    return;
  }
  const Tensor chunk = at::empty({std::min(kChunkElements, dst.numel())}, options);
  for (std::int64_t at = 0; at < dst.numel(); at += kChunkElements) {
    const std::int64_t count = std::min(kChunkElements, dst.numel() - at);
    std::memcpy(chunk.data_ptr(), source + at * item_bytes,
                static_cast<std::size_t>(count * item_bytes));
    flat.narrow(0, at, count).copy_(chunk.narrow(0, 0, count));
  }
}

}  // namespace

std::optional<DType> to_dtype(StoredDtype stored) {
  for (const auto& [key, value] : kDtypes)
    if (key == stored) return value;
  return std::nullopt;
}

StoredDtype to_stored(DType dtype) {
  for (const auto& [key, value] : kDtypes)
    if (value == dtype) return key;
  throw Error(ErrorKind::internal, "checkpoint",
              fmt::format("safetensors has no type for {}", wmtp::name_of(dtype)));
}

void copy_elements(const StoredTensor& tensor, std::span<const std::byte> bytes,
                   std::int64_t element_begin, Tensor dst) {
  WMTP_CHECK(dst.is_contiguous() && dst.device().is_cpu(),
             "the target must be a contiguous CPU tensor");
  WMTP_CHECK(element_begin >= 0 && element_begin + dst.numel() <= numel(tensor.shape),
             fmt::format("elements {}..{} of {} {}", element_begin, element_begin + dst.numel(),
                         tensor.name, shape_text(tensor.shape)));
  const auto dtype = to_dtype(tensor.dtype);
  if (!dtype)
    throw Error(ErrorKind::config, "checkpoint",
                fmt::format("tensor {} has dtype {}, which wmtp does not compute with", tensor.name,
                            weights::name_of(tensor.dtype)));
  if (dst.numel() == 0) return;
  ask_for_large_pages(dst);
  const std::byte* source =
      bytes.data() + static_cast<std::size_t>(element_begin) * element_bytes(*dtype);
  // Large copies go through LibTorch, which shares them out over its threads.
  if (dst.scalar_type() == *dtype && dst.numel() < kChunkElements)
    std::memcpy(dst.data_ptr(), source, static_cast<std::size_t>(dst.nbytes()));
  else
    convert(source, *dtype, dst);
}

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  WMTP_CHECK(tensor.is_contiguous() && tensor.device().is_cpu(),
             "bytes of a contiguous CPU tensor");
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace wmtp::weights
