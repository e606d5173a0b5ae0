#include "wmtp/models/model_source.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/model/init_weights.h"
#include "wmtp/model/presets.h"
#include "wmtp/models/adapter_folder.h"
#include "wmtp/models/base_fingerprint.h"
#include "wmtp/models/open_model.h"
#include "wmtp/weights/safetensors_tensor.h"

namespace wmtp::models {
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
                 [&](const Tensor& host) { model::random_init(param, seed, std, begin, host); });
  };
  source.fingerprint = [config, seed] {
    return random_fingerprint(config, fmt::format("drawn from {}", seed));
  };
  return source;
}

std::function<std::string()> fingerprint_of(ModelSource source, const std::string& known) {
  if (!known.empty()) return [known] { return known; };
  return [source = std::move(source)] { return sampled_fingerprint(source); };
}

parallel::ReadParam reader_of(std::shared_ptr<const weights::WeightSource> weights) {
  return [weights = std::move(weights)](const layout::ParamSpec& param, std::int64_t begin,
                                        const Tensor& out) {
    through_host(out, out.scalar_type(),
                 [&](const Tensor& host) { weights->read(param.name, begin, host); });
  };
}

parallel::ReadNf4 nf4_reader_of(std::shared_ptr<const weights::WeightSource> weights) {
  const auto has_nf4 = [&](const weights::StoredTensor& tensor) {
    return weights->has_nf4(tensor);
  };
  if (!std::ranges::any_of(weights->tensors(), has_nf4)) return {};
  return [weights = std::move(weights)](const layout::ParamSpec& param, std::int64_t begin,
                                        std::int64_t count) -> std::optional<kernels::Nf4Weights> {
    const weights::StoredTensor* stored = weights->find(param.name);
    return stored ? weights->read_nf4(*stored, begin, count) : std::nullopt;
  };
}

DType embedding_dtype(const weights::WeightSource& weights) {
  const auto* stored = weights.find("model.embed_tokens.weight");
  return stored ? weights::to_dtype(stored->dtype).value_or(kFloat32) : kFloat32;
}

DType exact_dtype(const OpenedModel& opened) {
  std::optional<DType> all;
  for (const layout::UnitSpec& unit : model::model_units(opened.config))
    for (const layout::ParamSpec& param : unit.params) {
      const auto* stored = opened.folder.weights->find(param.name);
      const DType dtype = stored ? weights::to_dtype(stored->dtype).value_or(kFloat32) : kFloat32;
      if (all.value_or(dtype) != dtype) return kFloat32;
      all = dtype;
    }
  return all == kBFloat16 || all == kFloat16 ? *all : kFloat32;
}

}  // namespace

std::vector<layout::UnitSpec> ModelSource::units() const {
  return lora ? model::lora_units(config, *lora) : model::model_units(config);
}

parallel::ReadParam random_weights(const model::ModelConfig& config, std::uint64_t seed) {
  return [std = config.initializer_range, seed](const layout::ParamSpec& param, std::int64_t begin,
                                                const Tensor& out) {
    model::random_init(param, seed, std, begin, out);
  };
}

void apply_adapter(ModelSource& source, const std::filesystem::path& folder) {
  if (source.lora)
    throw Error(ErrorKind::config, "peft", "the model has an adapter already",
                "name the base model and one adapter");
  OpenedAdapter adapter = open_adapter(folder, source.config);
  source.lora = adapter.lora;
  if (adapter.value_head) source.value_head = adapter.value_head;
  const std::shared_ptr<const weights::WeightSource> weights = std::move(adapter.weights);
  source.fill = [base = source.fill, over = reader_of(weights), weights](
                    const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
    (weights->find(param.name) ? over : base)(param, begin, out);
  };
  if (source.stored_nf4)
    source.stored_nf4 = [base = source.stored_nf4, weights](
                            const layout::ParamSpec& param, std::int64_t begin,
                            std::int64_t count) -> std::optional<kernels::Nf4Weights> {
      if (weights->find(param.name)) return std::nullopt;
      return base(param, begin, count);
    };
  source.fingerprint = fingerprint_of(source, {});
}

ModelSource open_model_source(const std::string& name, const weights::Environment& environment,
                              std::uint64_t seed, const std::string& base_model) {
  if (const auto preset = model::find_preset(name); preset && base_model.empty())
    return drawn(*preset, seed);
  OpenedModel opened = open_model(name, environment, base_model);
  if (!opened.has_weights())
    throw Error(ErrorKind::config, "model", fmt::format("{} has no weights", name),
                "is model.safetensors, or an index of its pieces, in the folder?");
  ModelSource source;
  source.config = opened.config;
  source.tokenizer_folder = opened.folder.tokenizer_folder;
  source.generation_config = opened.generation_config;
  source.lora = opened.lora;
  source.value_head = opened.value_head;
  source.base_model = opened.base_model;
  source.read_from = opened.read_from;
  source.step = opened.step;
  source.changes_base = opened.changes_base;
  source.unquantized = opened.unquantized;
  source.exact_dtype = exact_dtype(opened);
  source.stored_dtype = embedding_dtype(*opened.folder.weights);
  const std::shared_ptr<const weights::WeightSource> weights = std::move(opened.folder.weights);
  source.fill = reader_of(weights);
  source.stored_nf4 = nf4_reader_of(weights);
  source.fingerprint = fingerprint_of(source, opened.fingerprint);
  return source;
}

}  // namespace wmtp::models
