// N rows (tokens), D features.
#include "wmtp/kernels/rms_norm.h"

#include <vector>

#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/cpu/views.h"

namespace wmtp::kernels::cpu {

template <class T>
void rms_norm(const RmsNorm& args) {
  const Rows<T> x(args.x_ND), delta(args.delta_ND), sum(args.sum_ND), out(args.out_ND);
  const T* weight = args.weight_D.data_ptr<T>();
  T* rstd = args.rstd_N.data_ptr<T>();
  const std::int64_t num_features = x.columns;
  parallel_for(x.rows, grain_of(num_features), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      if (delta)
        for (std::int64_t d = 0; d < num_features; ++d) sum[n][d] = x[n][d] + delta[n][d];
      const T* input = delta ? sum[n] : x[n];
      T squares = 0;
      for (std::int64_t d = 0; d < num_features; ++d) squares += input[d] * input[d];
      rstd[n] = 1 / std::sqrt(squares / static_cast<T>(num_features) + static_cast<T>(args.eps));
      for (std::int64_t d = 0; d < num_features; ++d) out[n][d] = input[d] * rstd[n] * weight[d];
    }
  });
}

template <class T>
void rms_norm_backward(const RmsNormBackward& args) {
  const Rows<T> dout(args.dout_ND), x(args.x_ND), dx(args.dx_ND);
  const T* weight = args.weight_D.data_ptr<T>();
  const T* rstd = args.rstd_N.data_ptr<T>();
  const std::int64_t num_features = x.columns;
  if (args.dweight_D.defined()) {
    T* dweight = args.dweight_D.data_ptr<T>();
    for (std::int64_t d = 0; d < num_features; ++d)
      for (std::int64_t n = 0; n < x.rows; ++n) dweight[d] += dout[n][d] * x[n][d] * rstd[n];
  }
  parallel_for(x.rows, grain_of(num_features), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      T mean = 0;
      for (std::int64_t d = 0; d < num_features; ++d)
        mean += dout[n][d] * weight[d] * x[n][d] * rstd[n];
      mean /= static_cast<T>(num_features);
      for (std::int64_t d = 0; d < num_features; ++d)
        dx[n][d] += rstd[n] * (dout[n][d] * weight[d] - x[n][d] * rstd[n] * mean);
    }
  });
}

template void rms_norm<float>(const RmsNorm&);
template void rms_norm<double>(const RmsNorm&);
template void rms_norm_backward<float>(const RmsNormBackward&);
template void rms_norm_backward<double>(const RmsNormBackward&);

}  // namespace wmtp::kernels::cpu
