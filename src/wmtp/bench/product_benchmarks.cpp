// N tokens, D hidden, F FFN width, V vocabulary.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "wmtp/bench/kernel_inputs.h"
#include "wmtp/kernels/attention.h"
#include "wmtp/kernels/gemm.h"
#include "wmtp/kernels/packed/attention.h"

namespace wmtp::bench {
namespace {

namespace k = kernels;

// Documents end to end: of one length, of half to one and a half times as much, or as short as rows
// of instructions are.
enum class Rows { equal, packed, medium, brief };

bool runs_on_cudnn(DType dtype, c10::Device device) {
  return device.is_cuda() && dtype != kFloat32 && k::has_packed_attention();
}

std::vector<k::AttentionChoice> choices_for(Rows rows, DType dtype, c10::Device device) {
  if (rows == Rows::equal || !runs_on_cudnn(dtype, device)) return {k::AttentionChoice::automatic};
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

  KernelBenchmark attention(Rows rows, k::AttentionChoice choice, bool backward) const {
    const Tensor q = headed(shape_.num_heads), key = headed(shape_.num_kv_heads),
                 v = headed(shape_.num_kv_heads);
    const std::vector<std::int32_t> start = starts(rows);
    double squares = 0;
    for (std::size_t d = 1; d < start.size(); ++d)
      squares += std::pow(static_cast<double>(start[d] - start[d - 1]), 2);
    const auto documents = std::make_shared<k::Documents>(k::make_documents(start, q.device()));
    const double flops = 2 * squares * shape_.num_heads * shape_.head_dim;
    auto result = named(fmt::format("attention{}, {}{}", backward ? " backward" : "", name_of(rows),
                                    choice == k::AttentionChoice::cudnn ? ", cudnn" : ""),
                        0, backward ? 2.5 * flops : flops);
    result.is_flops = true;
    result.shape = fmt::format("{} tokens, {} documents", shape_.tokens, start.size() - 1);
    const k::AttentionOptions options{.choice = choice};
    if (!backward) {
      result.ours = [=] { k::attention(q, key, v, *documents, options); };
      return result;
    }
    const Tensor dout = headed(shape_.num_heads);
    // Made by the first call, so that listing the benchmarks runs nothing.
    const auto forward = std::make_shared<k::AttentionResult>();
    result.ours = [=] {
      if (!forward->out_NHE.defined()) *forward = k::attention(q, key, v, *documents, options);
      k::attention_backward({dout, q, key, v, forward.get(), documents.get(), options});
    };
    return result;
  }

 private:
  static std::string_view name_of(Rows rows) {
    switch (rows) {
      case Rows::equal:
        return "equal documents";
      case Rows::packed:
        return "packed";
      case Rows::medium:
        return "medium";
      default:
        return "short";
    }
  }

  std::vector<std::int32_t> starts(Rows rows) const {
    std::vector<std::int32_t> start{0};
    for (std::int64_t at = 0, i = 0; at < shape_.tokens; ++i) {
      const std::int64_t length = rows == Rows::equal    ? shape_.document
                                  : rows == Rows::packed ? shape_.document * (1 + i % 3) / 2
                                  : rows == Rows::medium ? shape_.document * (1 + i % 3) / 8
                                                         : 24 + i * 37 % 48;
      at += std::min(shape_.tokens - at, length);
      start.push_back(static_cast<std::int32_t>(at));
    }
    return start;
  }
};

}  // namespace

std::vector<MakeBenchmark> product_benchmarks(const KernelShape& shape, DType dtype,
                                              c10::Device device) {
  const ProductOps ops(shape, dtype, device);
  std::vector<MakeBenchmark> all{[=] { return ops.gemm(0); }, [=] { return ops.gemm(1); },
                                 [=] { return ops.gemm(2); }};
  for (const Rows rows : {Rows::equal, Rows::packed, Rows::medium, Rows::brief})
    for (const k::AttentionChoice choice : choices_for(rows, dtype, device))
      for (const bool backward : {false, true})
        all.push_back([=] { return ops.attention(rows, choice, backward); });
  return all;
}

}  // namespace wmtp::bench
