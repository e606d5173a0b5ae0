#include "wmtp/kernels/support/cuda_launch.h"

#include <fmt/format.h>

#include "wmtp/tensor/cuda_error.h"
#include "wmtp/tensor/cuda_plugin.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::kernels {

const CudaKernels& gpu_kernels() {
  const CudaKernels* kernels = cuda_tables().kernels;
  WMTP_CHECK(kernels != nullptr, "the GPU plugin brought no kernels");
  return *kernels;
}

void* gpu_stream() {
  return cuda_tables().services.current_stream();
}

Element element_of(std::string_view op, const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case kFloat32:
      return Element::fp32;
    case kBFloat16:
      return Element::bf16;
    case kFloat16:
      return Element::fp16;
    default:
      throw Error(ErrorKind::config, "kernels",
                  fmt::format("{}: {} on a GPU", op, name_of(tensor.scalar_type())),
                  "use bf16, fp16 or fp32");
  }
}

Error launch_error(std::string_view op, int code, std::string_view text) {
  const ErrorKind kind = kind_of_cuda_error(code);
  return {kind, "kernels", fmt::format("{}: the launch failed: {} (CUDA error {})", op, text, code),
          hint_of_cuda_error(kind)};
}

void check_launch(std::string_view op, int code) {
  if (code != 0) throw launch_error(op, code, gpu_kernels().error_text(code));
}

}  // namespace wmtp::kernels
