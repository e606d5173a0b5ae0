#include "wmtp/models/merged_source.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>

#include <map>
#include <memory>

#include "wmtp/models/adapter_folder.h"

namespace wmtp::models {
namespace {

struct Adapter {
  layout::ParamSpec a, b;
  double scale = 0;
};

// The two tensors of every adapted module, by the name of its weight.
std::map<std::string, Adapter, std::less<>> adapters_of(const ModelSource& source) {
  std::map<std::string, Adapter, std::less<>> adapters;
  for (const layout::ParamSpec& param : adapter_params(source.config, *source.lora)) {
    const std::string_view module = adapted_module(param.name);
    Adapter& adapter = adapters[std::string(module) + ".weight"];
    adapter.scale = source.lora->scale(*source.lora->adapter_of(module));
    (param.name.ends_with("lora_A.weight") ? adapter.a : adapter.b) = param;
  }
  return adapters;
}

Tensor read(const parallel::ReadParam& fill, const layout::ParamSpec& param, std::int64_t first_row,
            std::int64_t num_rows) {
  const std::int64_t columns = param.shape[1];
  const Tensor rows = at::empty({num_rows * columns}, at::kFloat);
  fill(param, first_row * columns, rows);
  return rows.view({num_rows, columns});
}

}  // namespace

ModelSource merged_source(const ModelSource& source) {
  if (!source.lora) return source;
  ModelSource merged = source;
  merged.lora.reset();
  if (source.stored_nf4)
    merged.stored_nf4 = [stored = source.stored_nf4, adapters = adapters_of(source)](
                            const layout::ParamSpec& param, std::int64_t begin,
                            std::int64_t count) -> std::optional<kernels::Nf4Weights> {
      if (adapters.contains(param.name)) return std::nullopt;
      return stored(param, begin, count);
    };
  merged.fill = [fill = source.fill, adapters = adapters_of(source)](
                    const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
    const auto found = adapters.find(param.name);
    if (found == adapters.end()) return fill(param, begin, out);
    const Adapter& adapter = found->second;
    const std::int64_t columns = param.shape[1], end = begin + out.numel();
    const std::int64_t first = begin / columns, last = (end + columns - 1) / columns;
    const Tensor weight = read(fill, param, first, last - first);
    const Tensor a = read(fill, adapter.a, 0, adapter.a.shape[0]);
    const Tensor b = read(fill, adapter.b, first, last - first);
    const Tensor sum = at::addmm(weight, b, a, 1, adapter.scale).view(-1);
    out.copy_(sum.narrow(0, begin - first * columns, out.numel()).view(out.sizes()));
  };
  return merged;
}

}  // namespace wmtp::models
