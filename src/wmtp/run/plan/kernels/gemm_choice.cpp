#include "wmtp/run/plan/kernels/gemm_choice.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"

namespace wmtp::run {

void check_gemm_choice(config::GemmChoice choice, std::string_view key, c10::Device device,
                       DType param_dtype) {
  if (choice == config::GemmChoice::library) return;
  if (!device.is_cuda())
    throw Error(ErrorKind::config, "model",
                fmt::format("{} measured on a CPU, but products are timed on GPUs only", key),
                "set library");
  if (param_dtype == kFloat32)
    throw Error(ErrorKind::config, "model",
                fmt::format("{} measured with compute in fp32, but only products of bf16 and fp16 "
                            "are timed",
                            key),
                "set library, or compute in bf16");
}

void tell_gemm_choice(config::GemmChoice choice) {
  if (choice == config::GemmChoice::library) return;
  log::info("train",
            "runtime.gemm_choice: measured has never run on a GPU: what it gains is not known, and "
            "what stands around the library was tested by emulation only");
}

}  // namespace wmtp::run
