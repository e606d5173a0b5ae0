#include "wmtp/run/plan/flops.h"

namespace wmtp::run {
namespace {

double linear_flops(const model::ModelConfig& c, bool logits) {
  const double q = static_cast<double>(c.num_heads * c.head_dim),
               kv = static_cast<double>(c.num_kv_heads * c.head_dim);
  const double d = static_cast<double>(c.dim), f = static_cast<double>(c.ffn_dim);
  const double block = 2 * d * q + 2 * d * kv + 3 * d * f;
  const double heads = logits ? static_cast<double>(c.n_future) : 0;
  return 2 * (static_cast<double>(c.num_blocks) * block +
              heads * static_cast<double>(c.vocab_size) * d);
}

double attention_flops(const model::ModelConfig& c, double span) {
  return 2 * static_cast<double>(c.num_blocks) * span *
         static_cast<double>(c.num_heads * c.head_dim);
}

}  // namespace

double forward_flops_per_token(const model::ModelConfig& config, double span, bool logits) {
  return linear_flops(config, logits) + attention_flops(config, span);
}

double lora_flops_per_token(const model::ModelConfig& config, double span, double lora_params,
                            bool logits) {
  return 2 * linear_flops(config, logits) + 3 * attention_flops(config, span) + 6 * lora_params;
}

}  // namespace wmtp::run
