#include "wmtp/kernels/dropout.h"

#include "wmtp/core/error.h"
#include "wmtp/kernels/checks.h"
#include "wmtp/kernels/cpu/definitions.h"

namespace wmtp::kernels {

void dropout(const Tensor& x_NI, const DropoutMask& mask, const Tensor& out_NI) {
  const std::int64_t rows = x_NI.size(0);
  const Demands demands("dropout", x_NI);
  demands.matrix("out", out_NI, rows, x_NI.size(1), x_NI.scalar_type())
      .vector("document", mask.document_N, rows, kInt32)
      .vector("position", mask.position_N, rows, kInt32);
  WMTP_CHECK(mask.p >= 0 && mask.p < 1, "dropout: p must lie in [0, 1)");
  if (x_NI.is_cuda())
    throw Error(ErrorKind::config, "kernels", "dropout has no GPU body yet", "set lora.dropout: 0");
  x_NI.scalar_type() == kFloat64 ? cpu::dropout<double>(x_NI, mask, out_NI)
                                 : cpu::dropout<float>(x_NI, mask, out_NI);
}

}  // namespace wmtp::kernels
