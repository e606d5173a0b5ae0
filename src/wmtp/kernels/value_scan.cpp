#include "wmtp/kernels/value_scan.h"

#include "wmtp/core/error.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/support/cuda_launch.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::kernels {
namespace {

void check_value_scan(const ValueScan& args) {
  const ArgChecks demands("value_scan", args.values_N);
  const DType dtype = args.values_N.scalar_type();
  check_responses(demands, args.responses, args.values_N);
  demands.vector("out", args.out_N, args.values_N.size(0), dtype);
  const std::int64_t num_docs = args.responses.num_docs();
  if (args.kind != ScanKind::gae_value)
    demands.vector("reward", args.responses.reward_D, num_docs, dtype);
  if (args.bad_D.defined()) demands.vector("bad", args.bad_D, num_docs, kInt32);
  if (args.lambda_1.defined()) demands.vector("lambda", args.lambda_1, 1, dtype);
}

void value_scan_on_gpu(const ValueScan& a) {
  WMTP_CHECK(element_of("value_scan", a.values_N) == Element::fp32,
             "value_scan: the values are not fp32");
  CudaValueScan args{};
  args.kind = a.kind;
  args.values = floats_of(a.values_N), args.out = floats_of(a.out_N);
  if (a.kind != ScanKind::gae_value) args.reward = floats_of(a.responses.reward_D);
  args.mask = a.responses.mask_N.data_ptr<std::uint8_t>();
  args.doc_start = a.responses.doc_start_D1.data_ptr<std::int32_t>();
  args.bad = static_cast<std::int32_t*>(data_of(a.bad_D));
  args.num_docs = a.responses.num_docs();
  args.gamma = static_cast<float>(a.gamma), args.lambda = static_cast<float>(a.lambda);
  args.v_init = static_cast<float>(a.v_init);
  args.device_lambda = static_cast<const float*>(data_of(a.lambda_1));
  check_launch("value_scan", gpu_kernels().value_scan(args, gpu_stream()));
}

void value_scan_on_cpu(ValueScan args) {
  if (args.lambda_1.defined()) args.lambda = args.lambda_1.item<double>();
  is_double_on_cpu("value_scan", args.values_N) ? cpu::value_scan<double>(args)
                                                : cpu::value_scan<float>(args);
}

}  // namespace

void value_scan(const ValueScan& args) {
  const ProfiledOperator operation("wmtp::value_scan");
  check_value_scan(args);
  if (args.responses.num_docs() == 0) return;
  args.values_N.is_cuda() ? value_scan_on_gpu(args) : value_scan_on_cpu(args);
}

}  // namespace wmtp::kernels
