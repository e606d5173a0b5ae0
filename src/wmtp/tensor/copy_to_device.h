// Values of the host as a tensor where a model reads them.
#pragma once
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "wmtp/tensor/tensor.h"

namespace wmtp {

// STREAM: from pinned memory, so the copy is enqueued and the host goes on.
template <class T>
Tensor copy_to_device(std::span<const T> values, c10::Device device) {
  const auto options =
      at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value).pinned_memory(device.is_cuda());
  const Tensor host = at::empty({static_cast<std::int64_t>(values.size())}, options);
  std::ranges::copy(values, host.data_ptr<T>());
  return device.is_cpu() ? host : host.to(device, /*non_blocking=*/true);
}

}  // namespace wmtp
