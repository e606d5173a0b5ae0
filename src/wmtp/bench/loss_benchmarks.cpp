// N tokens, D hidden, F FFN width, V vocabulary.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/nll_loss_forward.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "wmtp/bench/kernel_inputs.h"
#include "wmtp/kernels/adamw.h"
#include "wmtp/kernels/codes/moment_codes.h"
#include "wmtp/kernels/codes/planes.h"
#include "wmtp/kernels/cross_entropy.h"
#include "wmtp/kernels/grad_norm.h"
#include "wmtp/kernels/linear_cross_entropy.h"
#include "wmtp/kernels/nf4.h"

namespace wmtp::bench {
namespace {

namespace k = kernels;

class LossOps : public KernelInputs {
 public:
  using KernelInputs::KernelInputs;

  KernelBenchmark cross_entropy() const {
    const std::int64_t chunk =
        std::min<std::int64_t>(shape_.tokens, options_.device().is_cpu() ? 128 : 4096);
    const Tensor logits = random({chunk, shape_.vocabulary}), nll = wide({chunk});
    const Tensor targets = at::randint(shape_.vocabulary, {chunk}, options_.dtype(kInt32));
    const Tensor long_targets = targets.to(kInt64), scale = at::full({chunk}, 1e-3, statistics());
    auto result =
        named("softmax cross-entropy pass", shape_.vocabulary, 2 * logits.numel() * bytes_);
    result.shape = fmt::format("{} x {}", chunk, shape_.vocabulary);
    result.ours = [=] { k::cross_entropy({logits, targets, nll, scale, {}}); };
    result.aten = [=] { loss_with_aten(logits, long_targets); };
    return result;
  }

  KernelBenchmark linear_cross_entropy() const {
    const Tensor hidden = rows(shape_.hidden),
                 weight = random({shape_.vocabulary, shape_.hidden}) * 0.02;
    const Tensor targets = at::randint(shape_.vocabulary, {shape_.tokens}, options_.dtype(kInt32));
    const Tensor scale = at::full({shape_.tokens}, 1e-3, statistics()),
                 dhidden = at::empty_like(hidden);
    const Tensor dweight = at::zeros({shape_.vocabulary, shape_.hidden}, statistics());
    auto result =
        named("linear_cross_entropy", shape_.hidden,
              6.0 * static_cast<double>(shape_.tokens) * shape_.hidden * shape_.vocabulary);
    result.is_flops = true;
    result.shape = fmt::format("{} x {} x {}", shape_.tokens, shape_.hidden, shape_.vocabulary);
    result.ours = [=] {
      k::nll_and_grad({hidden, weight, {}, targets, 0}, {scale, dhidden, dweight});
    };
    result.aten = [=, long_targets = targets.to(kInt64)] {
      const Tensor dlogits = loss_with_aten(at::mm(hidden, weight.t()), long_targets);
      Tensor(dhidden).copy_(at::mm(dlogits, weight));
      Tensor(dweight).add_(at::mm(dlogits.t(), hidden));
    };
    return result;
  }

  KernelBenchmark adamw() const {
    const auto flat = at::TensorOptions().dtype(kFloat32).device(options_.device());
    const std::int64_t size = shape_.parameters;
    k::AdamW args;
    const Tensor param = at::randn({size}, flat);
    args.param = param, args.grad = at::randn({size}, flat);
    args.exp_avg = at::zeros({size}, flat), args.exp_avg_sq = at::zeros({size}, flat);
    const bool in_planes = options_.dtype() == kBFloat16;  // as bf16 compute keeps its masters
    if (in_planes) {
      args.param = at::empty({size}, options_);
      args.param_lower = at::empty({size}, flat.dtype(at::kShort));
      k::split_planes(param, {args.param, args.param_lower});
    } else if (options_.dtype() != kFloat32) {
      args.compute_copy = at::empty({size}, options_);
    }
    args.learning_rate = 1e-5, args.weight_decay = 0.01;
    args.grad_scale = at::ones({}, flat);
    args.applied_steps = at::zeros({}, flat.dtype(kInt64)),
    args.apply = at::ones({}, flat.dtype(kInt32));
    auto result = named(in_planes ? "adamw, two planes" : "adamw", 0,
                        static_cast<double>(size) * (28 + (args.compute_copy.defined() ? 2 : 0)));
    result.shape = fmt::format("{} M", size / 1'000'000);
    result.ours = [=] { k::adamw(args); };
    result.aten = [=, step = at::ones({}, flat)] {
      at::_fused_adamw_({param}, {args.grad}, {args.exp_avg}, {args.exp_avg_sq}, {}, {step}, 1e-5,
                        0.9, 0.95, 0.01, 1e-8, false, false);
      if (in_planes) Tensor(args.param).copy_(param);
      if (args.compute_copy.defined()) Tensor(args.compute_copy).copy_(param);
    };
    return result;
  }

  // bf16 master, moments in bf16 or 8 bits; fewer elements on a CPU, which takes its time for each.
  KernelBenchmark adamw_rounded(bool in_8bit = false) const {
    const auto flat = at::TensorOptions().dtype(kFloat32).device(options_.device());
    const std::int64_t size = shape_.parameters / (options_.device().is_cuda() ? 1 : 16);
    k::AdamW args;
    args.param = at::randn({size}, flat).to(kBFloat16), args.grad = at::randn({size}, flat);
    const auto moments = flat.dtype(in_8bit ? at::kByte : kBFloat16);
    args.exp_avg = at::zeros({size}, moments), args.exp_avg_sq = at::zeros({size}, moments);
    if (in_8bit) {
      args.exp_avg_scales = at::zeros({k::num_code_blocks(size)}, flat);
      args.exp_avg_sq_scales = at::zeros({k::num_code_blocks(size)}, flat);
    }
    args.learning_rate = 1e-5, args.weight_decay = 0.01;
    args.grad_scale = at::ones({}, flat);
    args.applied_steps = at::zeros({}, flat.dtype(kInt64)),
    args.apply = at::ones({}, flat.dtype(kInt32));
    auto result = named(in_8bit ? "adamw, 8-bit moments" : "adamw, rounded bf16", 0,
                        static_cast<double>(size) * (in_8bit ? 12 : 16));
    result.shape = fmt::format("{} M", size / 1'000'000);
    result.ours = [=] { k::adamw(args); };
    return result;
  }

  KernelBenchmark nf4_dequantize() const {
    const std::int64_t size = shape_.hidden * shape_.ffn, blocks = k::nf4_blocks(size);
    const auto bytes = options_.dtype(at::kByte);
    const Tensor packed = at::randint(256, {k::nf4_bytes(size)}, bytes);
    const k::Nf4Scales scales{.codes = at::randint(256, {blocks}, bytes),
                              .group_max = at::ones({k::nf4_groups(blocks)}, statistics())};
    const Tensor out = at::empty({size}, options_);
    auto result = named("nf4_dequantize", 0,
                        static_cast<double>(packed.nbytes() + scales.codes.nbytes() +
                                            scales.group_max.nbytes() + out.nbytes()));
    result.shape = fmt::format("{} x {}", shape_.ffn, shape_.hidden);
    result.ours = [=] { k::nf4_dequantize(packed, scales, out); };
    return result;
  }

  KernelBenchmark grad_norm() const {
    const Tensor flat = at::randn({shape_.parameters},
                                  at::TensorOptions().dtype(kFloat32).device(options_.device()));
    const Tensor sum = at::zeros({}, options_.dtype(kFloat64));
    auto result = named("squared norm", 0, 4.0 * static_cast<double>(shape_.parameters));
    result.shape = fmt::format("{} M", shape_.parameters / 1'000'000);
    result.ours = [=] { k::add_squared_norm(flat, sum); };
    result.aten = [=] { at::linalg_vector_norm(flat); };
    return result;
  }

 private:
  // dlogits of the mean loss, as autograd would run it.
  static Tensor loss_with_aten(const Tensor& logits, const Tensor& targets) {
    const Tensor log_p = at::_log_softmax(logits.to(kFloat32), 1, false);
    const auto [loss, weight] = at::nll_loss_forward(log_p, targets, {}, 1, -100);
    const Tensor one = at::ones({}, log_p.options());
    const Tensor dlog_p = at::nll_loss_backward(one, log_p, targets, {}, 1, -100, weight);
    return at::_log_softmax_backward_data(dlog_p, log_p, 1, kFloat32).to(logits.scalar_type());
  }
};

}  // namespace

std::vector<MakeBenchmark> loss_benchmarks(const KernelShape& shape, DType dtype,
                                           c10::Device device) {
  const LossOps ops(shape, dtype, device);
  return {[=] { return ops.cross_entropy(); },
          [=] { return ops.linear_cross_entropy(); },
          [=] { return ops.adamw(); },
          [=] { return ops.adamw_rounded(); },
          [=] { return ops.adamw_rounded(/*in_8bit=*/true); },
          [=] { return ops.grad_norm(); },
          [=] { return ops.nf4_dequantize(); }};
}

}  // namespace wmtp::bench
