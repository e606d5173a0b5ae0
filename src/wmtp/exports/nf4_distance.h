// What writing a base in NF4 with more bits leaves lost: how far the written weights are from those
// that the base itself would have given.
#pragma once
#include <cstdint>

#include "wmtp/tensor/tensor.h"

namespace wmtp::exports {

class Nf4Distance {
 public:
  // Both of one shape, on the host.
  void add(const Tensor& written, const Tensor& wanted);

  std::int64_t num_weights() const { return num_weights_; }
  double max() const { return max_; }
  double rms() const;

 private:
  std::int64_t num_weights_ = 0;
  double max_ = 0, squares_ = 0;
};

}  // namespace wmtp::exports
