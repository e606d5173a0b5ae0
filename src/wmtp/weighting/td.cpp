#include "wmtp/weighting/td.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <fmt/format.h>

#include <cmath>

#include "wmtp/core/error.h"
#include "wmtp/kernels/value_scan.h"

namespace wmtp::weighting {
namespace {

kernels::ScanKind kind_of(const TdOptions& options) {
  if (options.mode == TdMode::td0) return kernels::ScanKind::td0;
  switch (options.terminal) {
    case Terminal::value:
      return kernels::ScanKind::gae_value;
    case Terminal::reward:
      return kernels::ScanKind::gae_reward;
    case Terminal::monte_carlo:
      return kernels::ScanKind::monte_carlo;
  }
  WMTP_CHECK(false, "a terminal that is none of the three");
}

kernels::ValueScan scan_of(const TdOptions& options, const Tensor& values_N,
                           const kernels::Responses& docs) {
  check(options);
  kernels::ValueScan scan{
      kind_of(options), options.gamma, options.lambda, options.v_init, values_N, docs, {}, {}};
  if (docs.reward_D.defined()) scan.responses.reward_D = docs.reward_D.to(values_N.scalar_type());
  scan.out_N = at::empty_like(values_N);
  return scan;
}

[[noreturn]] void refuse_td(const std::string& fact, const char* hint) {
  throw Error(ErrorKind::config, "weighting", fact, hint);
}

}  // namespace

void check(const TdOptions& options) {
  if (!(options.gamma > 0 && options.gamma <= 1))
    refuse_td(fmt::format("td.gamma is {}", options.gamma), "it must lie in (0, 1]");
  if (!(options.lambda >= 0 && options.lambda <= 1))
    refuse_td(fmt::format("td.lambda is {}", options.lambda), "it must lie in [0, 1]");
  if (!std::isfinite(options.v_init))
    refuse_td(fmt::format("td.v_init is {}", options.v_init), "it must be finite");
  const bool monte_carlo = options.mode == TdMode::gae && options.terminal == Terminal::monte_carlo;
  if (monte_carlo && (options.gamma != 1 || options.lambda != 1))
    refuse_td(fmt::format("td.terminal monte_carlo with gamma {} and lambda {}", options.gamma,
                          options.lambda),
              "Monte Carlo errors need gamma = lambda = 1");
}

Tensor td_error(const TdOptions& options, const Tensor& values_N, const kernels::Responses& docs) {
  const kernels::ValueScan scan = scan_of(options, values_N, docs);
  kernels::value_scan(scan);
  return scan.out_N;
}

Tensor bad_values(const TdOptions& options, const Tensor& values_N,
                  const kernels::Responses& docs) {
  kernels::ValueScan scan = scan_of(options, values_N, docs);
  scan.bad_D = at::empty({docs.num_docs()}, values_N.options().dtype(kInt32));
  kernels::value_scan(scan);
  return at::sum(scan.bad_D, kInt64);
}

}  // namespace wmtp::weighting
