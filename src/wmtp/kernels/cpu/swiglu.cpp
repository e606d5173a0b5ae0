// N rows, F features.
#include "wmtp/kernels/swiglu.h"

#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/cpu/views.h"

namespace wmtp::kernels::cpu {

template <class T>
void swiglu(const Tensor& gate_up_N2F, const Tensor& out_NF) {
  const Rows<T> gate_up(gate_up_N2F), out(out_NF);
  const std::int64_t num_features = out.columns;
  parallel_for(out.rows, grain_of(num_features), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n)
      for (std::int64_t f = 0; f < num_features; ++f) {
        const T gate = gate_up[n][f];
        out[n][f] = gate / (1 + std::exp(-gate)) * gate_up[n][num_features + f];
      }
  });
}

template <class T>
void swiglu_backward(const SwigluBackward& args) {
  const Rows<T> dout(args.dout_NF), gate_up(args.gate_up_N2F), out(args.out_NF);
  const std::int64_t num_features = dout.columns;
  parallel_for(dout.rows, grain_of(num_features), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n)
      for (std::int64_t f = 0; f < num_features; ++f) {
        const T gate = gate_up[n][f], up = gate_up[n][num_features + f];
        const T sigmoid = 1 / (1 + std::exp(-gate));
        if (out) out[n][f] = gate * sigmoid * up;
        gate_up[n][f] = dout[n][f] * up * sigmoid * (1 + gate * (1 - sigmoid));
        gate_up[n][num_features + f] = dout[n][f] * gate * sigmoid;
      }
  });
}

template void swiglu<float>(const Tensor&, const Tensor&);
template void swiglu<double>(const Tensor&, const Tensor&);
template void swiglu_backward<float>(const SwigluBackward&);
template void swiglu_backward<double>(const SwigluBackward&);

}  // namespace wmtp::kernels::cpu
