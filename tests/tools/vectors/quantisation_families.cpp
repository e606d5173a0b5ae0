#include <ATen/ops/empty.h>

#include "tools/vectors/families.h"
#include "tools/vectors/json_tensors.h"
#include "wmtp/core/error.h"
#include "wmtp/kernels/nf4.h"

namespace wmtp::vectors {
namespace {

// Both levels of one parameter, and its values back from each.
Json nf4(const Json& in) {
  const Tensor values = tensor(in.at("values")).to(at::kFloat).view({-1});
  const std::int64_t count = values.numel();
  const Tensor packed = at::empty({kernels::nf4_bytes(count)}, at::kByte);
  const Tensor absmax = at::empty({kernels::nf4_blocks(count)}, at::kFloat);
  if (const std::int64_t place = kernels::nf4_quantize(values, packed, absmax); place >= 0)
    throw Error(ErrorKind::data, "vectors", "no finite number at " + std::to_string(place));
  const kernels::Nf4Scales nested = kernels::nf4_quantize_scales(absmax);
  kernels::Nf4Scales plain;
  plain.codes = absmax;
  const auto back = [&](const kernels::Nf4Scales& scales) {
    const Tensor out = at::empty({count}, at::kFloat);
    kernels::nf4_dequantize(packed, scales, out);
    return to_json(out.to(at::kDouble));
  };
  return {{"packed", to_json(packed.to(at::kDouble))},
          {"absmax", to_json(absmax.to(at::kDouble))},
          {"group_max", to_json(nested.group_max.to(at::kDouble))},
          {"offset", nested.offset},
          {"nested_absmax", to_json(kernels::nf4_scales(nested).to(at::kDouble))},
          {"values", back(plain)},
          {"nested_values", back(nested)}};
}

}  // namespace

Families quantisation_families() {
  return {{"nf4", nf4}};
}

}  // namespace wmtp::vectors
