#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

#include "emulated_gpu/kernels/launcher_cases.h"
#include "wmtp/core/rng.h"

namespace wmtp::emulated::testing {
namespace {

float number(std::size_t array, std::int64_t i) {
  return static_cast<float>(
      2 * unit_uniform(philox4x32_10(3, array, static_cast<std::uint64_t>(i))[0]) - 1);
}

template <class T>
T* filled(void* to, const std::vector<T>& values) {
  std::memcpy(to, values.data(), values.size() * sizeof(T));
  return static_cast<T*>(to);
}

}  // namespace

void* DeviceMemory::allocate(std::int64_t count, std::size_t element_bytes) {
  const std::size_t bytes = static_cast<std::size_t>(count) * element_bytes;
  const std::size_t shift = off_boundary_ ? element_bytes : 0;
  arrays_.push_back({std::make_unique<std::byte[]>(shift + bytes), shift, bytes});
  return arrays_.back().memory.get() + shift;
}

void* DeviceMemory::elements(kernels::Element element, std::int64_t count) {
  if (element == kernels::Element::fp32) return floats(count);
  auto* to = static_cast<std::uint16_t*>(allocate(count, 2));
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = number(arrays_.size(), i);
    to[i] = element == kernels::Element::bf16 ? __float2bfloat16_rn(value).bits
                                              : __float2half_rn(value).bits;
  }
  return to;
}

float* DeviceMemory::floats(std::int64_t count) {
  auto* to = static_cast<float*>(allocate(count, sizeof(float)));
  for (std::int64_t i = 0; i < count; ++i) to[i] = number(arrays_.size(), i);
  return to;
}

double* DeviceMemory::doubles(std::int64_t count) {
  return static_cast<double*>(allocate(count, sizeof(double)));
}

std::int32_t* DeviceMemory::ints(const std::vector<std::int32_t>& values) {
  return filled(allocate(static_cast<std::int64_t>(values.size()), 4), values);
}

std::int64_t* DeviceMemory::longs(const std::vector<std::int64_t>& values) {
  return filled(allocate(static_cast<std::int64_t>(values.size()), 8), values);
}

std::uint8_t* DeviceMemory::bytes(std::int64_t count, unsigned below) {
  auto* to = static_cast<std::uint8_t*>(allocate(count, 1));
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = static_cast<std::uint8_t>(philox4x32_10(4, arrays_.size(), i)[0] % below);
  return to;
}

std::vector<std::byte> DeviceMemory::contents() const {
  std::vector<std::byte> all;
  for (const Array& array : arrays_) {
    const std::byte* begin = array.memory.get() + array.shift;
    all.insert(all.end(), begin, begin + array.bytes);
  }
  return all;
}

}  // namespace wmtp::emulated::testing
