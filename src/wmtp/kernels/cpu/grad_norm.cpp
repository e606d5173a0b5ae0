#include "wmtp/kernels/grad_norm.h"

#include "wmtp/kernels/cpu/reference.h"

namespace wmtp::kernels::cpu {

template <class T>
void add_squared_norm(const Tensor& flat, const Tensor& out) {
  const T* values = flat.data_ptr<T>();
  double sum = 0;
  for (std::int64_t i = 0; i < flat.numel(); ++i)
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  *out.data_ptr<double>() += sum;
}

template void add_squared_norm<float>(const Tensor&, const Tensor&);
template void add_squared_norm<double>(const Tensor&, const Tensor&);

}  // namespace wmtp::kernels::cpu
