#include "wmtp/models/sampling/finite_weights.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "wmtp/core/error.h"
#include "wmtp/models/sampling/weight_samples.h"

namespace wmtp::models {

void require_finite(const std::string& model, const layout::ParamSpec& param,
                    const parallel::ReadParam& fill, Reading reading) {
  constexpr std::int64_t kAtOnce = std::int64_t{1} << 20;
  const auto check = [&](std::int64_t begin, std::int64_t count) {
    const Tensor piece = at::empty({count}, at::kFloat);
    fill(param, begin, piece);
    const float* values = piece.const_data_ptr<float>();
    const float* end = values + count;
    const float* bad = std::find_if(values, end, [](float value) { return !std::isfinite(value); });
    if (bad == end) return;
    throw Error(ErrorKind::numeric, "model",
                fmt::format("{}: element {} of {} is {}, no number to train with", model,
                            begin + (bad - values), param.name, *bad),
                "get the model's files again, or an earlier checkpoint of the run they come from");
  };
  if (reading == Reading::samples) return for_each_sample(param.numel(), check);
  for (std::int64_t begin = 0; begin < param.numel(); begin += kAtOnce)
    check(begin, std::min(kAtOnce, param.numel() - begin));
}

}  // namespace wmtp::models
