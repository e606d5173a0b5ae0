// N tokens, D hidden, F FFN width, V vocabulary.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "wmtp/bench/kernel_inputs.h"
#include "wmtp/kernels/attention.h"
#include "wmtp/kernels/gemm.h"
#include "wmtp/kernels/packed/attention.h"

namespace wmtp::bench {
namespace {

namespace k = kernels;

// Documents end to end.
struct Layout {
  std::string name;
  std::vector<std::int32_t> start;
  bool is_even = false;  // all of one length

  double squares() const {
    double sum = 0;
    for (std::size_t d = 1; d < start.size(); ++d)
      sum += std::pow(static_cast<double>(start[d] - start[d - 1]), 2);
    return sum;
  }
};

Layout laid_out(std::string name, std::int64_t tokens,
                const std::function<std::int64_t(std::int64_t)>& length_of) {
  Layout layout{std::move(name), {0}};
  for (std::int64_t at = 0, i = 0; at < tokens; ++i) {
    at += std::min(tokens - at, length_of(i));
    layout.start.push_back(static_cast<std::int32_t>(at));
  }
  return layout;
}

Layout evenly(std::string name, std::int64_t tokens, std::int64_t length) {
  Layout layout = laid_out(std::move(name), tokens / length * length,
                           [length](std::int64_t) { return length; });
  layout.is_even = true;
  return layout;
}

// Of one length, then of several, each beside documents of one length that give attention as much
// to do: of half to one and a half times as many tokens, of a quarter of that, or as short as rows
// of instructions are.
std::vector<Layout> layouts_of(const KernelShape& shape) {
  const std::int64_t document = shape.document, tokens = shape.tokens;
  std::vector<Layout> all{evenly("equal documents", tokens, document)};
  for (Layout layout :
       {laid_out("packed", tokens, [=](std::int64_t i) { return document * (1 + i % 3) / 2; }),
        laid_out("medium", tokens, [=](std::int64_t i) { return document * (1 + i % 3) / 8; }),
        laid_out("short", tokens, [](std::int64_t i) { return 24 + i * 37 % 48; })}) {
    const auto tokens_squared = std::pow(static_cast<double>(tokens), 2);
    const std::int64_t num_documents = std::lround(tokens_squared / layout.squares());
    Layout even = evenly("as " + layout.name + ", evenly", tokens, tokens / num_documents);
    all.push_back(std::move(layout));
    all.push_back(std::move(even));
  }
  return all;
}

bool runs_on_cudnn(DType dtype, c10::Device device) {
  return device.is_cuda() && dtype != kFloat32 && k::has_packed_attention();
}

std::vector<k::AttentionChoice> choices_for(const Layout& layout, DType dtype, c10::Device device) {
  if (layout.is_even || !runs_on_cudnn(dtype, device)) return {k::AttentionChoice::automatic};
  return {k::AttentionChoice::flash, k::AttentionChoice::cudnn};
}

class ProductOps : public KernelInputs {
 public:
  using KernelInputs::KernelInputs;

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

  KernelBenchmark attention(const Layout& layout, k::AttentionChoice choice, bool backward) const {
    const std::int64_t tokens = layout.start.back();
    const auto heads = [&](std::int64_t count) { return headed(count).narrow(0, 0, tokens); };
    const Tensor q = heads(shape_.num_heads), key = heads(shape_.num_kv_heads),
                 v = heads(shape_.num_kv_heads);
    const auto documents =
        std::make_shared<k::Documents>(k::make_documents(layout.start, q.device()));
    const double flops = 2 * layout.squares() * shape_.num_heads * shape_.head_dim;
    auto result = named(fmt::format("attention{}, {}{}", backward ? " backward" : "", layout.name,
                                    choice == k::AttentionChoice::cudnn ? ", cudnn" : ""),
                        0, backward ? 2.5 * flops : flops);
    result.is_flops = true;
    result.shape = fmt::format("{} tokens, {} documents", tokens, layout.start.size() - 1);
    const k::AttentionOptions options{.choice = choice};
    if (!backward) {
      result.ours = [=] { k::attention(q, key, v, *documents, options); };
      return result;
    }
    const Tensor dout = heads(shape_.num_heads);
    // Made by the first call, so that listing the benchmarks runs nothing.
    const auto forward = std::make_shared<k::AttentionResult>();
    result.ours = [=] {
      if (!forward->out_NHE.defined()) *forward = k::attention(q, key, v, *documents, options);
      k::attention_backward({dout, q, key, v, forward.get(), documents.get(), options});
    };
    return result;
  }
};

}  // namespace

std::vector<MakeBenchmark> product_benchmarks(const KernelShape& shape, DType dtype,
                                              c10::Device device) {
  const ProductOps ops(shape, dtype, device);
  std::vector<MakeBenchmark> all{[=] { return ops.gemm(0); }, [=] { return ops.gemm(1); },
                                 [=] { return ops.gemm(2); }};
  for (const Layout& layout : layouts_of(shape))
    for (const k::AttentionChoice choice : choices_for(layout, dtype, device))
      for (const bool backward : {false, true})
        all.push_back([=] { return ops.attention(layout, choice, backward); });
  return all;
}

}  // namespace wmtp::bench
