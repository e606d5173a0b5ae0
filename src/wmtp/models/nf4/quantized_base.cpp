#include "wmtp/models/nf4/quantized_base.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "wmtp/core/error.h"
#include "wmtp/kernels/nf4.h"

namespace wmtp::models {
namespace {

using kernels::kNf4Block;
using kernels::Nf4Weights;

Nf4Weights quantized(const ModelSource& source, const layout::ParamSpec& param, DType dtype) {
  const std::int64_t count = param.numel();
  if (source.stored_nf4)
    if (auto stored = source.stored_nf4(param, 0, count)) return std::move(*stored);
  const Tensor values = at::empty({count}, at::kFloat);
  source.fill(param, 0, values);
  values.copy_(values.to(dtype));
  Nf4Weights weights;
  weights.packed = at::empty({kernels::nf4_bytes(count)}, at::kByte);
  const Tensor absmax = at::empty({kernels::nf4_blocks(count)}, at::kFloat);
  if (const std::int64_t place = kernels::nf4_quantize(values, weights.packed, absmax); place >= 0)
    throw Error(ErrorKind::data, "model",
                fmt::format("element {} of {} is {}, which has no NF4", place, param.name,
                            values.const_data_ptr<float>()[place]),
                "get the model's files again");
  weights.scales = kernels::nf4_quantize_scales(absmax);
  return weights;
}

std::set<std::string, std::less<>> stored_names(const ModelSource& source,
                                                const std::vector<layout::UnitSpec>& units) {
  std::set<std::string, std::less<>> names;
  if (!source.stored_nf4) return names;
  for (const layout::UnitSpec& unit : units)
    for (const layout::ParamSpec& param : unit.params)
      if (source.stored_nf4(param, 0, std::min(param.numel(), kNf4Block))) names.insert(param.name);
  return names;
}

// Whole blocks of a parameter.
Nf4Weights stretch(const Nf4Weights& whole, std::int64_t begin, std::int64_t count) {
  return {whole.packed.narrow(0, begin / 2, kernels::nf4_bytes(count)),
          kernels::nf4_stretch(whole.scales, begin / kNf4Block, kernels::nf4_blocks(count))};
}

// Makes whole parameters and keeps the last one, since readers go through a parameter in pieces.
class LastQuantized {
 public:
  LastQuantized(ModelSource source, const std::vector<layout::UnitSpec>& units, DType dtype)
      : source_(std::move(source)), dtype_(dtype) {
    for (const layout::UnitSpec& unit : units)
      for (const layout::ParamSpec& param : unit.params)
        if (param.quantized) names_.insert(param.name);
  }

  void fill(const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
    if (!names_.contains(param.name)) return source_.fill(param, begin, out);
    const std::int64_t first = begin / kNf4Block * kNf4Block;
    const Nf4Weights part = stretch(whole(param), first, begin + out.numel() - first);
    const Tensor values = at::empty({begin + out.numel() - first}, at::kFloat);
    kernels::nf4_dequantize(part.packed, part.scales, values);
    out.copy_(values.narrow(0, begin - first, out.numel()).view(out.sizes()));
  }

  std::optional<Nf4Weights> stored(const layout::ParamSpec& param, std::int64_t begin,
                                   std::int64_t count) {
    if (names_.contains(param.name)) return stretch(whole(param), begin, count);
    return source_.stored_nf4 ? source_.stored_nf4(param, begin, count) : std::nullopt;
  }

  const std::set<std::string, std::less<>>& names() const { return names_; }

 private:
  // Tensors are shared with whoever asked before: another parameter gets its own.
  Nf4Weights whole(const layout::ParamSpec& param) {
    const std::lock_guard lock(mutex_);
    if (last_name_ != param.name) {
      last_ = quantized(source_, param, dtype_);
      last_name_ = param.name;
    }
    return last_;
  }

  ModelSource source_;
  std::set<std::string, std::less<>> names_;
  DType dtype_;
  std::mutex mutex_;
  std::string last_name_;
  Nf4Weights last_;
};

}  // namespace

Unquantized unquantized_weights(const ModelSource& source,
                                const std::vector<layout::UnitSpec>& units) {
  const auto stored = stored_names(source, units);
  Unquantized weights{source.fill, {}};
  for (const layout::UnitSpec& unit : units)
    for (const layout::ParamSpec& param : unit.params)
      if (param.quantized && !stored.contains(param.name)) weights.names.insert(param.name);
  return weights;
}

QuantizedBase stored_base(const ModelSource& source, const std::vector<layout::UnitSpec>& units) {
  return {source.fill, source.stored_nf4, stored_names(source, units)};
}

QuantizedBase quantized_base(const ModelSource& source, const std::vector<layout::UnitSpec>& units,
                             DType dtype) {
  const auto last = std::make_shared<LastQuantized>(source, units, dtype);
  auto names = stored_names(source, units);
  names.insert(last->names().begin(), last->names().end());
  return {[last](const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
            last->fill(param, begin, out);
          },
          [last](const layout::ParamSpec& param, std::int64_t begin, std::int64_t count) {
            return last->stored(param, begin, count);
          },
          std::move(names)};
}

}  // namespace wmtp::models
