// N tokens, D hidden, F FFN width, V vocabulary.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "wmtp/bench/kernel_inputs.h"
#include "wmtp/kernels/attention.h"
#include "wmtp/kernels/gemm.h"

namespace wmtp::bench {
namespace {

namespace k = kernels;

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
};

}  // namespace

std::vector<MakeBenchmark> product_benchmarks(const KernelShape& shape, DType dtype,
                                              c10::Device device) {
  const ProductOps ops(shape, dtype, device);
  std::vector<MakeBenchmark> all{[=] { return ops.gemm(0); }, [=] { return ops.gemm(1); },
                                 [=] { return ops.gemm(2); }};
  for (const bool uniform : {true, false})
    for (const bool backward : {false, true})
      all.push_back([=] { return ops.attention(uniform, backward); });
  return all;
}

}  // namespace wmtp::bench
