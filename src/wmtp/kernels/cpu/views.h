// Raw views of tensors for the CPU bodies.
#pragma once
#include <cstdint>

#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels::cpu {

// A matrix whose rows are contiguous. BORROWS the tensor's memory; data is null for an undefined
// tensor.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t rows = 0, columns = 0, stride = 0;

  Rows() = default;
  explicit Rows(const Tensor& matrix) {
    if (!matrix.defined()) return;
    data = matrix.data_ptr<T>();
    rows = matrix.size(0);
    columns = matrix.size(1);
    stride = matrix.stride(0);
  }
  explicit operator bool() const { return data != nullptr; }
  T* operator[](std::int64_t row) const { return data + row * stride; }
};

// [n, heads, features] with contiguous features.
template <class T>
struct Heads {
  T* data = nullptr;
  std::int64_t token_stride = 0, head_stride = 0;

  explicit Heads(const Tensor& heads)
      : data(heads.data_ptr<T>()), token_stride(heads.stride(0)), head_stride(heads.stride(1)) {}
  T* at(std::int64_t token, std::int64_t head) const {
    return data + token * token_stride + head * head_stride;
  }
};

template <class T>
T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<T>() : nullptr;
}

}  // namespace wmtp::kernels::cpu
