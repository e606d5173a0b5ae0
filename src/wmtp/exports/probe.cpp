#include "wmtp/exports/probe.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "wmtp/core/error.h"
#include "wmtp/model/weight_names.h"
#include "wmtp/models/upload.h"

namespace wmtp::exports {
namespace {

constexpr std::int32_t kTokens = 16;

// A unit exists from its acquire until its user lets go of the buffers.
class StreamedWeights final : public model::WeightAccess {
 public:
  StreamedWeights(std::vector<layout::UnitSpec> units, model::LocalWeights::ReadParam fill)
      : units_(std::move(units)), fill_(std::move(fill)) {}

  model::UnitBuffers acquire(UnitId unit, model::Pass) override {
    const auto index = static_cast<std::size_t>(unit.value());
    model::LocalWeights one({units_.at(index)}, kFloat32, c10::Device(c10::kCPU), false);
    one.fill(fill_);
    return one.acquire(UnitId(0), model::Pass::forward);
  }
  void release(UnitId, model::Pass) override {}

 private:
  std::vector<layout::UnitSpec> units_;
  model::LocalWeights::ReadParam fill_;
};

model::Batch probe_batch(const model::ModelConfig& config, const Tensor& inv_freq_F) {
  std::vector<std::int32_t> tokens(kTokens), positions(kTokens);
  std::iota(positions.begin(), positions.end(), 0);
  for (const std::int32_t i : positions)
    tokens[static_cast<std::size_t>(i)] =
        static_cast<std::int32_t>((7 * i + 3) % config.vocab_size);
  const std::vector<std::int32_t> doc_start{0, kTokens};
  const std::vector<std::uint8_t> mask(kTokens, 1);
  model::Batch batch = models::upload_tokens({tokens, positions, doc_start, mask}, 0, inv_freq_F);
  // Every row of every head: logits need no target.
  const Tensor rows_M = at::empty({kTokens}, at::kInt);
  std::copy(positions.begin(), positions.end(), rows_M.data_ptr<std::int32_t>());
  const Tensor rows = rows_M.to(inv_freq_F.device());
  for (std::int64_t head = 0; head < config.n_future; ++head) batch.heads.push_back({rows, rows});
  return batch;
}

}  // namespace

ProbeLogits probe_logits(model::Transformer& transformer, const Tensor& inv_freq_F) {
  const model::Batch batch = probe_batch(transformer.config(), inv_freq_F);
  const model::TrunkPass trunk = transformer.forward_trunk(batch);
  ProbeLogits logits;
  for (int head = 0; head < static_cast<int>(transformer.config().n_future); ++head)
    logits.push_back(transformer.logits(trunk, transformer.forward_head(trunk, batch, head))
                         .to(at::kCPU, at::kFloat));
  return logits;
}

ProbeLogits probe_logits(const model::ModelConfig& config,
                         const std::optional<model::LoraConfig>& lora,
                         const model::LocalWeights::ReadParam& fill) {
  StreamedWeights weights(lora ? model::lora_units(config, *lora) : model::model_units(config),
                          fill);
  model::TransformerOptions options;
  options.lora = lora;
  model::Transformer transformer(config, weights, nullptr, options);
  const std::vector<float> values = model::inv_freq(config);
  const Tensor inv_freq_F = at::empty({static_cast<std::int64_t>(values.size())}, at::kFloat);
  std::copy(values.begin(), values.end(), inv_freq_F.data_ptr<float>());
  return probe_logits(transformer, inv_freq_F);
}

double probe_difference(const ProbeLogits& a, const ProbeLogits& b) {
  double worst = 0;
  for (std::size_t head = 0; head < std::min(a.size(), b.size()); ++head) {
    WMTP_CHECK(a[head].sizes() == b[head].sizes(), "logits of different shapes");
    const double scale = a[head].abs().max().item<double>();
    const double far = a[head].sub(b[head]).abs().max().item<double>();
    if (!(far <= std::numeric_limits<double>::max()))
      return std::numeric_limits<double>::quiet_NaN();
    worst = std::max(worst, scale > 0 ? far / scale : far);
  }
  return worst;
}

}  // namespace wmtp::exports
