#include "wmtp/training/model_source.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/model/init_weights.h"
#include "wmtp/model/presets.h"
#include "wmtp/training/open_model.h"

namespace wmtp::training {
namespace {

// Runs `inner` on `out` where it is host memory of that dtype, else on a host copy.
void through_host(const Tensor& out, DType dtype, const std::function<void(const Tensor&)>& inner) {
  if (out.device().is_cpu() && out.scalar_type() == dtype && out.is_contiguous()) {
    inner(out);
    return;
  }
  const Tensor host = at::empty({out.numel()}, at::TensorOptions().dtype(dtype));
  inner(host);
  out.copy_(host.view(out.sizes()));
}

ModelSource drawn(const model::ModelConfig& config, std::uint64_t seed) {
  ModelSource source;
  source.config = config;
  source.fill = [std = config.initializer_range, seed](const layout::ParamSpec& param,
                                                       std::int64_t begin, const Tensor& out) {
    through_host(out, kFloat32,
                 [&](const Tensor& host) { model::draw_weights(param, seed, std, begin, host); });
  };
  return source;
}

}  // namespace

ModelSource open_model_source(const std::string& name, const checkpoint::Environment& environment,
                              std::uint64_t seed) {
  if (const auto preset = model::find_preset(name)) return drawn(*preset, seed);
  OpenedModel opened = open_model(name, environment);
  if (!opened.has_weights())
    throw Error(ErrorKind::config, "model", fmt::format("{} has no weights", name),
                "is model.safetensors, or an index of its pieces, in the folder?");
  ModelSource source;
  source.config = opened.config;
  source.tokenizer_folder = opened.folder.tokenizer_folder;
  source.value_head = opened.value_head;
  const std::shared_ptr<const checkpoint::WeightSource> weights = std::move(opened.folder.weights);
  source.fill = [weights](const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
    through_host(out, out.scalar_type(),
                 [&](const Tensor& host) { weights->read(param.name, begin, host); });
  };
  return source;
}

}  // namespace wmtp::training
