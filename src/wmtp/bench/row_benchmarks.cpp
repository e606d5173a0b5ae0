// N tokens, D hidden, F FFN width, V vocabulary.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/_fused_rms_norm_backward.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_dropout.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "wmtp/bench/kernel_inputs.h"
#include "wmtp/kernels/dropout.h"
#include "wmtp/kernels/embedding.h"
#include "wmtp/kernels/rms_norm.h"
#include "wmtp/kernels/rope.h"
#include "wmtp/kernels/swiglu.h"

namespace wmtp::bench {
namespace {

namespace k = kernels;

class RowOps : public KernelInputs {
 public:
  using KernelInputs::KernelInputs;

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

 private:
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
};

}  // namespace

std::vector<MakeBenchmark> row_benchmarks(const KernelShape& shape, DType dtype,
                                          c10::Device device) {
  const RowOps ops(shape, dtype, device);
  std::vector<MakeBenchmark> all{[=] { return ops.rms_norm(); },
                                 [=] { return ops.rms_norm_backward(); },
                                 [=] { return ops.swiglu(); },
                                 [=] { return ops.swiglu_backward(); },
                                 [=] { return ops.rope(false, false); },
                                 [=] { return ops.rope(false, true); },
                                 [=] { return ops.rope(true, false); },
                                 [=] { return ops.rope(true, true); },
                                 [=] { return ops.embedding_backward(); },
                                 [=] { return ops.dropout(); }};
  return all;
}

}  // namespace wmtp::bench
