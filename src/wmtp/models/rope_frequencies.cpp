#include "wmtp/models/rope_frequencies.h"

#include <ATen/ops/empty.h>

namespace wmtp::models {

Tensor rope_frequencies(const model::ModelConfig& config, DType compute, c10::Device device) {
  const std::vector<float> values = model::inv_freq(config);
  const Tensor host = at::empty({static_cast<std::int64_t>(values.size())}, at::kFloat);
  std::copy(values.begin(), values.end(), host.data_ptr<float>());
  return host.to(compute == kFloat64 ? at::kDouble : at::kFloat).to(device);
}

}  // namespace wmtp::models
