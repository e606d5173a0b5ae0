#include "wmtp/exports/nf4_distance.h"

#include <algorithm>
#include <cmath>

namespace wmtp::exports {

void Nf4Distance::add(const Tensor& written, const Tensor& wanted) {
  const Tensor apart = written.to(at::kFloat).sub(wanted.to(at::kFloat)).abs();
  max_ = std::max(max_, apart.max().item<double>());
  squares_ += apart.square().sum(at::kDouble).item<double>();
  num_weights_ += apart.numel();
}

double Nf4Distance::rms() const {
  return num_weights_ > 0 ? std::sqrt(squares_ / static_cast<double>(num_weights_)) : 0;
}

}  // namespace wmtp::exports
