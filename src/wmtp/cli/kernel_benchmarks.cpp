// N tokens, D hidden, F FFN width, V vocabulary.
#include "wmtp/cli/kernel_benchmarks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/_fused_rms_norm_backward.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/native_dropout.h>
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/nll_loss_forward.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "wmtp/kernels/adamw.h"
#include "wmtp/kernels/attention.h"
#include "wmtp/kernels/cross_entropy.h"
#include "wmtp/kernels/dropout.h"
#include "wmtp/kernels/embedding.h"
#include "wmtp/kernels/gemm.h"
#include "wmtp/kernels/grad_norm.h"
#include "wmtp/kernels/linear_cross_entropy.h"
#include "wmtp/kernels/rms_norm.h"
#include "wmtp/kernels/rope.h"
#include "wmtp/kernels/swiglu.h"

namespace wmtp::cli {
namespace {

namespace k = kernels;

class Maker {
 public:
  Maker(const KernelShape& shape, DType dtype, c10::Device device)
      : shape_(shape),
        options_(at::TensorOptions().dtype(dtype).device(device)),
        bytes_(static_cast<double>(element_bytes(dtype))) {}

  KernelBenchmark rms_norm() const {
    const Tensor x = rows(shape_.hidden), delta = rows(shape_.hidden), out = at::empty_like(x);
    const Tensor sum = at::empty_like(x), weight = random({shape_.hidden});
    const Tensor rstd = wide({shape_.tokens});
    auto result = named("residual + rms_norm", shape_.hidden, 4 * x.numel() * bytes_);
    result.ours = [=] { k::rms_norm({x, delta, weight, 1e-5, sum, out, rstd}); };
    result.aten = [=, d = shape_.hidden] {
      at::_fused_rms_norm(at::add(x, delta), {d}, weight, 1e-5);
    };
    return result;
  }

  KernelBenchmark rms_norm_backward() const {
    const Tensor x = rows(shape_.hidden), dout = rows(shape_.hidden), dx = at::zeros_like(x);
    const Tensor weight = random({shape_.hidden}), rstd = at::ones({shape_.tokens}, statistics());
    const Tensor dweight = at::zeros({shape_.hidden}, statistics());
    auto result = named("rms_norm backward", shape_.hidden, 4 * x.numel() * bytes_);
    result.ours = [=] { k::rms_norm_backward({dout, x, rstd, weight, dx, dweight}); };
    result.aten = [=, d = shape_.hidden] {
      const auto grads =
          at::_fused_rms_norm_backward(dout, x, {d}, rstd.unsqueeze(1), weight, {true, true});
      Tensor(dx).add_(std::get<0>(grads));
      Tensor(dweight).add_(std::get<1>(grads));
    };
    if (options_.device().is_cpu()) result.aten = nullptr;
    return result;
  }

  KernelBenchmark swiglu() const {
    const Tensor gate_up = rows(2 * shape_.ffn), out = rows(shape_.ffn);
    auto result = named("swiglu", shape_.ffn, 3 * out.numel() * bytes_);
    result.ours = [=] { k::swiglu(gate_up, out); };
    result.aten = [=, f = shape_.ffn] {
      at::silu(gate_up.narrow(1, 0, f)) * gate_up.narrow(1, f, f);
    };
    return result;
  }

  KernelBenchmark swiglu_backward() const {
    const Tensor gate_up = rows(2 * shape_.ffn), dout = rows(shape_.ffn),
                 out = at::empty_like(dout);
    auto result = named("swiglu backward + recompute", shape_.ffn, 6 * dout.numel() * bytes_);
    result.ours = [=] { k::swiglu_backward({dout, gate_up, out}); };
    result.aten = [=, f = shape_.ffn] {
      const Tensor gate = gate_up.narrow(1, 0, f), up = gate_up.narrow(1, f, f),
                   silu = at::silu(gate);
      Tensor(out).copy_(silu * up);
      at::cat({at::silu_backward(dout * up, gate), dout * silu}, 1);
    };
    return result;
  }

  KernelBenchmark rope(bool norm, bool backward) const {
    const k::HeadShape heads{shape_.num_heads, shape_.num_kv_heads, shape_.head_dim};
    const std::int64_t size = heads.head_dim, rotated = heads.num_heads + heads.num_kv_heads;
    const Tensor qkv = rows((rotated + heads.num_kv_heads) * size);
    const Tensor positions = at::randint(4096, {shape_.tokens}, options_.dtype(kInt32));
    const k::RopeTable table = k::rope_table(positions, wide({size / 2}));
    k::Rope forward{heads, table, qkv, {}, {}, 1e-6, {}, {}};
    if (norm) {
      forward.q_weight_E = random({size}), forward.k_weight_E = random({size});
      forward.qk_out = rows(rotated * size);
      forward.qk_rstd = at::ones({shape_.tokens, rotated}, statistics());
    }
    const double moved = bytes_ * static_cast<double>(shape_.tokens * size);
    if (!backward) {
      auto result = named(norm ? "rope + q/k norm" : "rope", rotated * size, 2 * moved * rotated);
      result.ours = [=] { k::rope(forward); };
      if (!norm) result.aten = [=] { rotate_with_aten(qkv, table, heads); };
      return result;
    }
    k::RopeBackward back{heads,
                         table,
                         headed(heads.num_heads),
                         headed(heads.num_kv_heads),
                         headed(heads.num_kv_heads),
                         qkv,
                         forward.qk_rstd,
                         forward.q_weight_E,
                         forward.k_weight_E,
                         at::empty_like(qkv),
                         {},
                         {}};
    if (norm) {
      back.dq_weight_E = at::zeros({size}, statistics());
      back.dk_weight_E = at::zeros({size}, statistics());
    }
    const double all = static_cast<double>(rotated + heads.num_kv_heads);
    auto result = named(norm ? "rope + q/k norm backward" : "rope backward", rotated * size,
                        moved * (2 * all + (norm ? rotated : 0)));
    result.ours = [=] { k::rope_backward(back); };
    return result;
  }

  KernelBenchmark embedding_backward() const {
    const Tensor tokens = at::randint(shape_.vocabulary, {shape_.tokens}, options_.dtype(kInt32));
    const Tensor dout = rows(shape_.hidden),
                 dweight = at::zeros({shape_.vocabulary, shape_.hidden}, statistics());
    auto result = named("embedding backward", shape_.hidden, dout.numel() * (bytes_ + 8));
    result.ours = [=] { k::embedding_backward(tokens, dout, dweight); };
    result.aten = [=, v = shape_.vocabulary] {
      Tensor(dweight).add_(at::embedding_dense_backward(dout, tokens, v, -1, false));
    };
    return result;
  }

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
    args.param = at::randn({size}, flat), args.grad = at::randn({size}, flat);
    args.exp_avg = at::zeros({size}, flat), args.exp_avg_sq = at::zeros({size}, flat);
    if (options_.dtype() != kFloat32) args.compute_copy = at::empty({size}, options_);
    args.learning_rate = 1e-5, args.weight_decay = 0.01;
    args.grad_scale = at::ones({}, flat);
    args.applied_steps = at::zeros({}, flat.dtype(kInt64)),
    args.apply = at::ones({}, flat.dtype(kInt32));
    auto result =
        named("adamw", 0, static_cast<double>(size) * (28 + (args.compute_copy.defined() ? 2 : 0)));
    result.shape = fmt::format("{} M", size / 1'000'000);
    result.ours = [=] { k::adamw(args); };
    result.aten = [=, step = at::ones({}, flat)] {
      at::_fused_adamw_({args.param}, {args.grad}, {args.exp_avg}, {args.exp_avg_sq}, {}, {step},
                        1e-5, 0.9, 0.95, 0.01, 1e-8, false, false);
      if (args.compute_copy.defined()) Tensor(args.compute_copy).copy_(args.param);
    };
    return result;
  }

  // bf16 master and moments; fewer elements on a CPU, which draws its random bits one by one.
  KernelBenchmark adamw_rounded() const {
    const auto flat = at::TensorOptions().dtype(kFloat32).device(options_.device());
    const std::int64_t size = shape_.parameters / (options_.device().is_cuda() ? 1 : 16);
    k::AdamW args;
    args.param = at::randn({size}, flat).to(kBFloat16), args.grad = at::randn({size}, flat);
    args.exp_avg = at::zeros_like(args.param), args.exp_avg_sq = at::zeros_like(args.param);
    args.learning_rate = 1e-5, args.weight_decay = 0.01;
    args.grad_scale = at::ones({}, flat);
    args.applied_steps = at::zeros({}, flat.dtype(kInt64)),
    args.apply = at::ones({}, flat.dtype(kInt32));
    auto result = named("adamw, rounded bf16", 0, static_cast<double>(size) * 16);
    result.shape = fmt::format("{} M", size / 1'000'000);
    result.ours = [=] { k::adamw(args); };
    return result;
  }

  KernelBenchmark dropout() const {
    const Tensor x = rows(shape_.hidden), out = at::empty_like(x);
    k::DropoutMask mask;
    mask.p = 0.05, mask.seed = 1;
    mask.streams_D = at::zeros({1}, options_.dtype(kInt64));
    mask.document_N = at::zeros({shape_.tokens}, options_.dtype(kInt32));
    mask.position_N = at::arange(shape_.tokens, options_.dtype(kInt32));
    auto result = named("dropout", shape_.hidden, 2 * static_cast<double>(x.numel()) * bytes_);
    result.ours = [=] { k::dropout(x, mask, out); };
    result.aten = [=] { at::native_dropout(x, 0.05, true); };
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

  // way 0: y = x W^T, 1: dx, 2: dW += (fp32).
  KernelBenchmark gemm(int way) const {
    const Tensor x = rows(shape_.hidden), weight = random({2 * shape_.ffn, shape_.hidden}),
                 y = rows(2 * shape_.ffn);
    const Tensor dweight = at::zeros(weight.sizes(), statistics());
    constexpr const char* kNames[] = {"linear", "linear backward, input",
                                      "linear backward, weight +="};
    auto result = named(kNames[way], shape_.hidden,
                        2.0 * static_cast<double>(shape_.tokens) * shape_.hidden * 2 * shape_.ffn);
    result.is_flops = true;
    result.shape = fmt::format("{} x {} x {}", shape_.tokens, shape_.hidden, 2 * shape_.ffn);
    if (way == 0) result.ours = [=] { k::linear(x, weight, y); };
    if (way == 1) result.ours = [=] { k::linear_backward_input(y, weight, x); };
    if (way == 2) result.ours = [=] { k::linear_backward_weight(y, x, dweight); };
    return result;
  }

  KernelBenchmark attention(bool uniform, bool backward) const {
    const Tensor q = headed(shape_.num_heads), key = headed(shape_.num_kv_heads),
                 v = headed(shape_.num_kv_heads);
    std::vector<std::int32_t> start{0};
    double squares = 0;
    for (std::int64_t at = 0, i = 0; at < shape_.tokens; ++i) {
      const std::int64_t length = std::min(
          shape_.tokens - at, uniform ? shape_.document : shape_.document * (1 + i % 3) / 2);
      at += length;
      squares += static_cast<double>(length * length);
      start.push_back(static_cast<std::int32_t>(at));
    }
    const auto documents = std::make_shared<k::Documents>(k::make_documents(start, q.device()));
    const double flops = 2 * squares * shape_.num_heads * shape_.head_dim;
    auto result = named(fmt::format("attention{}, {}", backward ? " backward" : "",
                                    uniform ? "equal documents" : "packed"),
                        0, backward ? 2.5 * flops : flops);
    result.is_flops = true;
    result.shape = fmt::format("{} tokens, {} documents", shape_.tokens, start.size() - 1);
    if (!backward) {
      result.ours = [=] { k::attention(q, key, v, *documents, {}); };
      return result;
    }
    const auto forward =
        std::make_shared<k::AttentionResult>(k::attention(q, key, v, *documents, {}));
    const Tensor dout = headed(shape_.num_heads);
    result.ours = [=] {
      k::attention_backward({dout, q, key, v, forward.get(), documents.get(), {}});
    };
    return result;
  }

 private:
  Tensor random(std::vector<std::int64_t> sizes) const { return at::randn(sizes, options_); }
  Tensor rows(std::int64_t columns) const { return random({shape_.tokens, columns}); }
  Tensor headed(std::int64_t heads) const {
    return random({shape_.tokens, heads, shape_.head_dim});
  }
  at::TensorOptions statistics() const { return options_.dtype(kFloat32); }
  Tensor wide(std::vector<std::int64_t> sizes) const { return at::randn(sizes, statistics()); }

  KernelBenchmark named(std::string name, std::int64_t columns, double work) const {
    KernelBenchmark result;
    result.name = std::move(name);
    result.shape = fmt::format("{} x {}", shape_.tokens, columns);
    result.work = work;
    return result;
  }

  static void rotate_with_aten(const Tensor& qkv, const k::RopeTable& table,
                               const k::HeadShape& heads) {
    const std::int64_t rotated = heads.num_heads + heads.num_kv_heads, half = heads.head_dim / 2;
    const Tensor qk =
        qkv.narrow(1, 0, rotated * heads.head_dim).unflatten(1, {rotated, heads.head_dim});
    const Tensor first = qk.narrow(2, 0, half), second = qk.narrow(2, half, half);
    const Tensor cos = table.cos_NF.to(qkv.scalar_type()).unsqueeze(1);
    const Tensor sin = table.sin_NF.to(qkv.scalar_type()).unsqueeze(1);
    at::cat({first * cos - second * sin, second * cos + first * sin}, 2);
  }

  // dlogits of the mean loss, as autograd would run it.
  static Tensor loss_with_aten(const Tensor& logits, const Tensor& targets) {
    const Tensor log_p = at::_log_softmax(logits.to(kFloat32), 1, false);
    const auto [loss, weight] = at::nll_loss_forward(log_p, targets, {}, 1, -100);
    const Tensor one = at::ones({}, log_p.options());
    const Tensor dlog_p = at::nll_loss_backward(one, log_p, targets, {}, 1, -100, weight);
    return at::_log_softmax_backward_data(dlog_p, log_p, 1, kFloat32).to(logits.scalar_type());
  }

  KernelShape shape_;
  at::TensorOptions options_;
  double bytes_;
};

}  // namespace

std::vector<MakeBenchmark> kernel_benchmarks(const KernelShape& shape, DType dtype,
                                             c10::Device device) {
  const Maker maker(shape, dtype, device);
  std::vector<MakeBenchmark> all{[=] { return maker.rms_norm(); },
                                 [=] { return maker.rms_norm_backward(); },
                                 [=] { return maker.swiglu(); },
                                 [=] { return maker.swiglu_backward(); },
                                 [=] { return maker.rope(false, false); },
                                 [=] { return maker.rope(false, true); },
                                 [=] { return maker.rope(true, false); },
                                 [=] { return maker.rope(true, true); },
                                 [=] { return maker.embedding_backward(); },
                                 [=] { return maker.cross_entropy(); },
                                 [=] { return maker.linear_cross_entropy(); },
                                 [=] { return maker.adamw(); },
                                 [=] { return maker.adamw_rounded(); },
                                 [=] { return maker.dropout(); },
                                 [=] { return maker.grad_norm(); },
                                 [=] { return maker.gemm(0); },
                                 [=] { return maker.gemm(1); },
                                 [=] { return maker.gemm(2); }};
  for (const bool uniform : {true, false})
    for (const bool backward : {false, true})
      all.push_back([=] { return maker.attention(uniform, backward); });
  return all;
}

}  // namespace wmtp::cli
