#include "wmtp/training/objectives/control_draws.h"

#include "wmtp/tensor/copy_to_device.h"

namespace wmtp::training {

Tensor draw_control(const VerifiableOptions& options, const DeviceBatch& batch,
                    std::uint64_t epoch) {
  if (options.control == WeightControl::none) return {};
  const c10::Device device = batch.docs.mask_N.device();
  const weighting::ControlKey key{options.seed, epoch};
  const weighting::HostDocuments docs{batch.doc_start, batch.mask, batch.sample_ids};
  if (options.control == WeightControl::random) {
    std::vector<float> weights(batch.mask.size());
    weighting::random_weights(options.random_law, options.weights, key, docs, weights);
    return copy_to_device<float>(weights, device);
  }
  std::vector<std::int32_t> source(batch.mask.size());
  weighting::shuffled_sources(key, docs, source);
  return copy_to_device<std::int32_t>(source, device);
}

}  // namespace wmtp::training
