#include "emulated_gpu/kernels/launcher_cases.h"

namespace wmtp::emulated::testing {
namespace {

using kernels::Element;
using Cases = std::vector<LauncherCase>;
using Memory = DeviceMemory;

constexpr Element kElements[] = {Element::fp32, Element::bf16, Element::fp16};
// Around one element, a pack, a warp, and what a block holds in registers.
constexpr std::int64_t kColumns[] = {1, 8, 129, 1000, 4096, 8209};

const kernels::CudaKernels& table() {
  return kernels::cuda_kernels();
}

std::string named(const std::string& op, Element element, std::int64_t extent) {
  const char* names[] = {"fp32", "bf16", "fp16"};
  return op + " " + names[static_cast<int>(element)] + " " + std::to_string(extent);
}

float* zeros(Memory& m, std::int64_t count) {
  return reinterpret_cast<float*>(m.doubles((count + 1) / 2));
}

void add_norms(Cases& cases, Element element, std::int64_t columns) {
  constexpr std::int64_t kRows = 3;
  for (const bool adds : {false, true})
    cases.push_back({named("rms_norm", element, columns), [=](Memory& m) {
                       const auto matrix = [&] { return m.elements(element, kRows * columns); };
                       void* x = matrix();
                       return table().rms_norm(
                           {element, x, adds ? matrix() : nullptr, m.elements(element, columns),
                            adds ? x : nullptr, matrix(), m.floats(kRows), kRows, columns, columns,
                            columns, columns, columns, 1e-5f, adds ? zeros(m, 1) : nullptr},
                           nullptr);
                     }});
  for (const bool trained : {false, true})
    cases.push_back({named("rms_norm_backward", element, columns), [=](Memory& m) {
                       const auto matrix = [&] { return m.elements(element, kRows * columns); };
                       return table().rms_norm_backward(
                           {element, Element::fp32, matrix(), matrix(),
                            m.elements(element, columns), m.floats(kRows), matrix(),
                            trained ? m.floats(columns) : nullptr,
                            trained ? m.floats(2 * columns) : nullptr, kRows, columns, columns,
                            columns, columns, 2},
                           nullptr);
                     }});
}

void add_rope(Cases& cases, Element element, int head_dim, bool norm) {
  constexpr std::int64_t kTokens = 5, kQ = 3, kKv = 2;
  const std::int64_t width = (kQ + 2 * kKv) * head_dim;
  const auto weight = [=](Memory& m) { return norm ? m.elements(element, head_dim) : nullptr; };
  cases.push_back({named("rope", element, head_dim), [=](Memory& m) {
                     return table().rope(
                         {element, m.floats(kTokens * head_dim / 2),
                          m.floats(kTokens * head_dim / 2), m.elements(element, kTokens * width),
                          weight(m), weight(m),
                          norm ? m.elements(element, kTokens * width) : nullptr,
                          norm ? m.floats(kTokens * (kQ + kKv)) : nullptr, kTokens, width, width,
                          kQ, kKv, head_dim, 1e-5f},
                         nullptr);
                   }});
  cases.push_back({named("rope_backward", element, head_dim), [=](Memory& m) {
                     kernels::CudaRopeBackward a{};
                     a.element = element, a.dweight_element = Element::bf16;
                     a.cos = m.floats(kTokens * head_dim / 2),
                     a.sin = m.floats(kTokens * head_dim / 2);
                     a.dq = m.elements(element, kTokens * kQ * head_dim);
                     a.dk = m.elements(element, kTokens * kKv * head_dim);
                     a.dv = m.elements(element, kTokens * kKv * head_dim);
                     a.dqkv = m.elements(element, kTokens * width);
                     if (norm) {
                       a.rstd = m.floats(kTokens * (kQ + kKv));
                       a.qkv = m.elements(element, kTokens * width);
                       a.q_weight = weight(m), a.k_weight = weight(m);
                       a.dq_weight = m.elements(Element::bf16, head_dim);
                       a.dk_weight = m.elements(Element::bf16, head_dim);
                       a.partial = m.floats(3 * 2 * head_dim);
                     }
                     a.tokens = kTokens, a.qkv_stride = a.dqkv_stride = width;
                     a.dq_token = kQ * head_dim, a.dk_token = a.dv_token = kKv * head_dim;
                     a.dq_head = a.dk_head = a.dv_head = head_dim;
                     a.num_q = kQ, a.num_kv = kKv, a.head_dim = head_dim, a.num_blocks = 3;
                     a.amax = zeros(m, 1);
                     return table().rope_backward(a, nullptr);
                   }});
}

void add_rows(Cases& cases, Element element, std::int64_t columns) {
  constexpr std::int64_t kRows = 3;
  const auto matrix = [=](Memory& m, std::int64_t rows) {
    return m.elements(element, rows * columns);
  };
  for (const bool backward : {false, true})
    cases.push_back({named("swiglu", element, columns), [=](Memory& m) {
                       return table().swiglu(
                           {element, matrix(m, 2 * kRows), backward ? matrix(m, kRows) : nullptr,
                            matrix(m, kRows), kRows, columns, 2 * columns, columns, columns,
                            zeros(m, 1)},
                           nullptr);
                     }});
  cases.push_back({named("embedding", element, columns), [=](Memory& m) {
                     return table().embedding({element, m.ints({4, 0, 4}), matrix(m, 5),
                                               matrix(m, kRows), kRows, columns, columns, columns},
                                              nullptr);
                   }});
  cases.push_back({named("embedding_backward", element, columns), [=](Memory& m) {
                     return table().embedding_backward(
                         {element, Element::fp32, m.ints({0, 4, 4}), m.longs({1, 0, 2}),
                          matrix(m, kRows), m.floats(5 * columns), kRows, columns, columns},
                         nullptr);
                   }});
  for (const bool scaled : {false, true})
    cases.push_back(
        {named("cross_entropy", element, columns), [=](Memory& m) {
           return table().cross_entropy(
               {element, matrix(m, kRows), scaled ? m.elements(element, kRows * 5) : nullptr,
                m.ints({0, static_cast<std::int32_t>(columns) - 1, -1}),
                scaled ? m.floats(kRows) : nullptr, m.floats(kRows), kRows, columns, columns, 5, 5},
               nullptr);
         }});
  cases.push_back({named("dropout", element, columns), [=](Memory& m) {
                     return table().dropout(
                         {element, matrix(m, kRows), matrix(m, kRows), m.ints({0, 0, 1}),
                          m.ints({0, 1, 3}), m.longs({11, 12}), kRows, columns, columns, columns, 9,
                          std::uint64_t{1} << 30, 4.0f / 3},
                         nullptr);
                   }});
}

// More rows and columns than a tile has; amax in memory that holds zeros before.
void add_float8(Cases& cases, Element element, std::int64_t columns) {
  constexpr std::int64_t kRows = 67, kPadded = 80;
  for (const bool rowwise : {false, true}) {
    const std::int64_t by_rows = rowwise ? kRows : 1, by_columns = rowwise ? columns : 1;
    cases.push_back({named("float8_amax", element, columns), [=](Memory& m) {
                       return table().float8_amax(
                           {element, m.elements(element, kRows * columns), zeros(m, by_rows),
                            rowwise ? zeros(m, by_columns) : nullptr, kRows, columns, columns},
                           nullptr);
                     }});
    cases.push_back({named("float8_quantise", element, columns), [=](Memory& m) {
                       return table().float8_quantise(
                           {element,
                            rowwise ? kernels::Float8Format::e4m3 : kernels::Float8Format::e5m2,
                            rowwise, m.elements(element, kRows * columns), m.floats(by_rows),
                            m.floats(by_columns), m.bytes(kRows * columns, 256),
                            m.bytes(columns * kPadded, 256), m.floats(by_rows),
                            m.floats(by_columns), kRows, columns, columns, kPadded},
                           nullptr);
                     }});
  }
}

void add_float8_turn(Cases& cases, std::int64_t rows, std::int64_t columns) {
  cases.push_back(
      {"float8_turn " + std::to_string(rows) + " x " + std::to_string(columns), [=](Memory& m) {
         return table().float8_turn(
             {m.bytes(rows * columns, 256), m.bytes(rows * columns, 256), rows, columns}, nullptr);
       }});
}

kernels::CudaAdamW adamw_arguments(Memory& m, Element grad, std::int64_t size) {
  kernels::CudaAdamW a{};
  a.grad_element = grad, a.copy_element = Element::bf16;
  a.grad = m.elements(grad, size), a.copy = m.elements(Element::bf16, size);
  a.grad_scale = m.floats(1);
  a.applied_steps = m.longs({3}), a.apply = m.ints({1}), a.size = size;
  a.beta1 = 0.9f, a.beta2 = 0.95f, a.log_beta1 = -0.1053605f, a.log_beta2 = -0.0512933f;
  a.learning_rate = 0.01f, a.weight_decay = 0.1f, a.eps = 1e-8f;
  a.seed = 9, a.stream = 1234, a.first_element = 512;
  return a;
}

void add_optimizer(Cases& cases, Element element, std::int64_t size) {
  const auto add = [&](const char* name, auto launch, Element param, Element moment) {
    cases.push_back({named(name, element, size), [=](Memory& m) {
                       kernels::CudaAdamW a = adamw_arguments(m, element, size);
                       a.param = m.elements(param, size);
                       a.exp_avg = m.elements(moment, size);
                       a.exp_avg_sq = m.elements(moment, size);
                       return launch(a, nullptr);
                     }});
  };
  add("adamw", table().adamw, Element::fp32, Element::fp32);
  add("adamw_rounded", table().adamw_rounded, Element::bf16, Element::bf16);
  add("adamw_bf16_moments", table().adamw_bf16_moments, Element::fp32, Element::bf16);
  const auto add_planes = [&](const char* name, auto launch, Element moment) {
    cases.push_back({named(name, element, size), [=](Memory& m) {
                       kernels::CudaAdamW a = adamw_arguments(m, element, size);
                       a.copy = nullptr;
                       a.param = m.elements(Element::bf16, size);
                       a.param_lower = m.elements(Element::bf16, size);  // any 16 bits
                       a.exp_avg = m.elements(moment, size);
                       a.exp_avg_sq = m.elements(moment, size);
                       return launch(a, nullptr);
                     }});
  };
  add_planes("adamw in planes", table().adamw, Element::fp32);
  add_planes("adamw_bf16_moments in planes", table().adamw_bf16_moments, Element::bf16);
  cases.push_back({named("adamw_8bit", element, size), [=](Memory& m) {
                     kernels::CudaAdamW a = adamw_arguments(m, element, size);
                     a.param = m.elements(Element::bf16, size);
                     a.exp_avg = m.bytes(size, 256), a.exp_avg_sq = m.bytes(size, 256);
                     a.exp_avg_scales = m.floats((size + 255) / 256);
                     a.exp_avg_sq_scales = m.floats((size + 255) / 256);
                     return table().adamw_8bit(a, nullptr);
                   }});
}

// From the second block of a group on, and over its end.
void add_nf4(Cases& cases, Element element, std::int64_t size) {
  const std::int64_t blocks = (size + 63) / 64;
  for (const bool nested : {false, true})
    cases.push_back({named("nf4_dequantize", element, size), [=](Memory& m) {
                       kernels::CudaNf4 a{};
                       a.element = element, a.size = size, a.skipped_blocks = 1;
                       a.packed = m.bytes((size + 1) / 2, 256), a.out = m.elements(element, size);
                       if (nested) {
                         a.codes = m.bytes(blocks, 256), a.offset = 0.5f;
                         a.group_max = m.floats((1 + blocks + 255) / 256);
                       } else {
                         a.absmax = m.floats(blocks);
                       }
                       return table().nf4_dequantize(a, nullptr);
                     }});
}

void add_planes(Cases& cases, std::int64_t size) {
  const auto add = [&](const char* name, auto launch, bool has_lower) {
    cases.push_back({named(name, Element::fp32, size), [=](Memory& m) {
                       return launch({m.floats(size), m.elements(Element::bf16, size),
                                      has_lower ? m.elements(Element::bf16, size) : nullptr, size},
                                     nullptr);
                     }});
  };
  add("split_planes", table().split_planes, true);
  add("split_planes, upper", table().split_planes, false);
  add("join_planes", table().join_planes, true);
}

void add_values(Cases& cases, std::int64_t tokens) {
  const auto end = static_cast<std::int32_t>(tokens);
  const std::vector<std::int32_t> starts{0, end / 3, end / 3, end};  // one document is empty
  for (int kind = 0; kind < 5; ++kind)
    cases.push_back({named("value_scan", Element::fp32, tokens), [=](Memory& m) {
                       return table().value_scan(
                           {static_cast<kernels::ScanKind>(kind), m.floats(tokens), m.floats(3),
                            m.bytes(tokens, 2), m.ints(starts), m.floats(tokens), m.ints({0, 0, 0}),
                            3, 0.99f, 0.95f, 0.5f},
                           nullptr);
                     }});
  cases.push_back(
      {named("response_stats", Element::fp32, tokens), [=](Memory& m) {
         return table().response_stats(
             {m.floats(tokens), m.bytes(tokens, 2), m.ints(starts), m.doubles(3 * 6), 3}, nullptr);
       }});
  for (const bool masked : {false, true})
    cases.push_back({named("top_k", Element::fp32, tokens), [=](Memory& m) {
                       return table().top_k(
                           {m.floats(tokens), masked ? m.bytes(tokens, 2) : nullptr,
                            m.floats(tokens), m.doubles(3), tokens, 300'000},
                           nullptr);
                     }});
}

}  // namespace

std::vector<LauncherCase> launcher_cases() {
  Cases cases;
  for (const Element element : kElements) {
    for (const std::int64_t columns : kColumns) {
      add_norms(cases, element, columns);
      add_rows(cases, element, columns);
      add_optimizer(cases, element, columns);
    }
    for (const std::int64_t size : {1, 63, 65, 16321, 20000}) add_nf4(cases, element, size);
    for (const std::int64_t columns : {1, 48, 150}) add_float8(cases, element, columns);
    for (const int head_dim : {2, 6, 16, 64, 128, 512})
      for (const bool norm : {false, true}) add_rope(cases, element, head_dim, norm);
    cases.push_back({named("squared_norm", element, 1001), [=](Memory& m) {
                       return table().squared_norm(
                           {element, m.elements(element, 1001),
                            m.doubles(kernels::kMaxPartialBlocks), m.doubles(1), 1001},
                           nullptr);
                     }});
  }
  for (const std::int64_t columns : kColumns) add_planes(cases, columns);
  for (const std::int64_t rows : {16, 64, 144}) add_float8_turn(cases, rows, 80);
  for (const std::int64_t tokens : {1, 31, 33, 100, 3001}) add_values(cases, tokens);
  return cases;
}

}  // namespace wmtp::emulated::testing
