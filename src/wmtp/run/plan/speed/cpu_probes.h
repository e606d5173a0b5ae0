// What calibrate_cpu times: the kernels of a step at sizes that span those of models for CPUs.
#pragma once
#include <functional>
#include <vector>

#include "wmtp/run/plan/speed/device_model.h"

namespace wmtp::run {

struct CpuProbe {
  // Which curve the point belongs to.
  enum class Kind { product, attention_forward, attention_backward, pass };
  Kind kind = Kind::product;
  Pass pass = Pass::copy;  // of Kind::pass
  double size = 0;         // as the curve counts it
  double work = 0;         // of one call: flops, bytes
  std::function<void()> run;
};

// The tensors of a probe exist while it does. THREADS: any number of calls at once.
using MakeProbe = std::function<CpuProbe()>;
std::vector<MakeProbe> cpu_probes();

}  // namespace wmtp::run
