#include "wmtp/kernels/response_stats.h"

#include "wmtp/core/error.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/support/cuda_launch.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::kernels {
namespace {

void response_stats_on_gpu(const Tensor& values_N, const Responses& responses,
                           const Tensor& stats_DS) {
  WMTP_CHECK(element_of("response_stats", values_N) == Element::fp32,
             "response_stats: the values are not fp32");
  CudaResponseStats args{};
  args.values = floats_of(values_N);
  args.mask = responses.mask_N.data_ptr<std::uint8_t>();
  args.doc_start = responses.doc_start_D1.data_ptr<std::int32_t>();
  args.stats = stats_DS.data_ptr<double>();
  args.num_docs = responses.num_docs();
  check_launch("response_stats", gpu_kernels().response_stats(args, gpu_stream()));
}

}  // namespace

void response_stats(const Tensor& values_N, const Responses& responses, const Tensor& stats_DS) {
  const ProfiledOperator operation("wmtp::response_stats");
  const ArgChecks demands("response_stats", values_N);
  check_responses(demands, responses, values_N);
  demands.matrix("stats", stats_DS, responses.num_docs(), kNumResponseStats, kFloat64)
      .gradient("stats", stats_DS, {responses.num_docs(), kNumResponseStats});
  if (responses.num_docs() == 0) return;
  if (values_N.is_cuda()) return response_stats_on_gpu(values_N, responses, stats_DS);
  is_double_on_cpu("response_stats", values_N)
      ? cpu::response_stats<double>(values_N, responses, stats_DS)
      : cpu::response_stats<float>(values_N, responses, stats_DS);
}

}  // namespace wmtp::kernels
