#include "wmtp/parallel/quantized_shard.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "wmtp/core/error.h"

namespace wmtp::parallel {
namespace {

using kernels::kNf4Block;

constexpr std::int64_t kReadAtOnce = std::int64_t{1} << 22;  // whole blocks

[[noreturn]] void refuse_value(const layout::ParamSpec& param, std::int64_t element, float value) {
  const std::int64_t columns = param.numel() / param.shape.at(0);
  throw Error(ErrorKind::data, "model",
              fmt::format("{} has {} in row {}, column {}: NF4 takes finite weights", param.name,
                          value, element / columns, element % columns),
              "is the folder damaged? quantize: none would train on such weights too");
}

std::int64_t first_block(const layout::Range& range) {
  return range.begin / kNf4Block;
}

std::int64_t num_blocks(const layout::Range& range) {
  return range.size() / kNf4Block;
}

std::int64_t num_groups(const layout::Range& range) {
  return kernels::nf4_groups(first_block(range) % kernels::kNf4Group + num_blocks(range));
}

std::int64_t nf4_bytes_of(const layout::Range& range) {
  return kernels::nf4_bytes(range.size()) + num_blocks(range) +
         num_groups(range) * static_cast<std::int64_t>(sizeof(float));
}

// Themselves where they are there already. From pinned memory the host does not wait.
kernels::Nf4Weights on_device(const kernels::Nf4Weights& weights, c10::Device device) {
  auto moved = [device](const Tensor& tensor) {
    return tensor.defined() ? tensor.to(device, /*non_blocking=*/true) : tensor;
  };
  const kernels::Nf4Scales& scales = weights.scales;
  return {moved(weights.packed),
          {moved(scales.codes), moved(scales.group_max), scales.offset, scales.first_block}};
}

}  // namespace

bool has_quantized(const layout::BucketPlan& plan) {
  return std::ranges::any_of(plan.params(), &layout::ParamSpec::quantized);
}

QuantizedShard::QuantizedShard(const layout::BucketPlan& plan, int rank,
                               const at::TensorOptions& options, DType rounded)
    : options_(options), rounded_(rounded) {
  for (const layout::Piece& piece : plan.pieces(rank)) {
    const std::int64_t size = piece.in_param.size();
    Part part{piece, {}, {}};
    if (!plan.params()[piece.param].quantized) {
      part.plain = at::zeros({size}, options);
    } else {
      WMTP_CHECK(piece.in_param.begin % kNf4Block == 0 && piece.in_shard % kNf4Block == 0 &&
                     size % kNf4Block == 0,
                 "a quantised parameter is cut inside a block");
      part.nf4.packed = at::zeros({kernels::nf4_bytes(size)}, options.dtype(at::kByte));
      part.nf4.scales = {at::zeros({num_blocks(piece.in_param)}, options.dtype(at::kByte)),
                         at::zeros({num_groups(piece.in_param)}, options.dtype(kFloat32)), 0,
                         first_block(piece.in_param)};
    }
    parts_.push_back(std::move(part));
  }
}

// The scales of the whole bucket lie as its blocks do, so one gather of equal parts brings those of
// every parameter; what is not quantised leaves a gap.
void QuantizedShard::fill(const layout::BucketPlan& plan, const Sources& sources) {
  const Tensor own = at::zeros({plan.shard_numel() / kNf4Block}, kFloat32);
  std::vector<bool> computed(plan.params().size());
  for (Part& part : parts_) {
    const layout::ParamSpec& param = plan.params()[part.piece.param];
    const layout::Range range = part.piece.in_param;
    if (part.plain.defined()) {
      fill_plain(part, param, sources.values);
      continue;
    }
    std::optional<kernels::Nf4Weights> stored;
    if (sources.stored) stored = sources.stored(param, range.begin, range.size());
    if (stored) {
      part.nf4.packed.copy_(stored->packed);
      part.nf4.scales = kept(stored->scales);
      continue;
    }
    computed[part.piece.param] = true;
    quantize(part, param, sources.values,
             own.narrow(0, part.piece.in_shard / kNf4Block, num_blocks(range)));
  }
  Tensor all = own;
  if (sources.group) {
    const c10::Device device = sources.group->device();
    all = at::empty({plan.padded_numel() / kNf4Block}, own.options().device(device));
    sources.group->all_gather(all, own.to(device), "scales").wait();
    all = all.cpu();
  }
  for (Part& part : parts_) {
    if (!computed[part.piece.param]) continue;
    const layout::Range whole = plan.param_range(part.piece.param), range = part.piece.in_param;
    const kernels::Nf4Scales scales =
        kernels::nf4_quantize_scales(all.narrow(0, first_block(whole), num_blocks(whole)));
    part.nf4.scales = kept(kernels::nf4_stretch(scales, first_block(range), num_blocks(range)));
  }
}

void QuantizedShard::fill_plain(Part& part, const layout::ParamSpec& param,
                                const ReadParam& read) const {
  const DType wide = part.plain.scalar_type() == kFloat64 ? kFloat64 : kFloat32;
  const Tensor host = at::empty({part.plain.numel()}, at::TensorOptions().dtype(wide));
  read(param, part.piece.in_param.begin, host);
  part.plain.copy_(host);
}

void QuantizedShard::quantize(Part& part, const layout::ParamSpec& param, const ReadParam& read,
                              const Tensor& absmax) const {
  const layout::Range range = part.piece.in_param;
  for (std::int64_t done = 0; done < range.size(); done += kReadAtOnce) {
    const std::int64_t size = std::min(kReadAtOnce, range.size() - done);
    Tensor values = at::empty({size}, kFloat32);
    read(param, range.begin + done, values);
    values = values.to(rounded_).to(kFloat32);
    const Tensor packed = at::empty({kernels::nf4_bytes(size)}, at::kByte);
    const std::int64_t bad =
        kernels::nf4_quantize(values, packed, absmax.narrow(0, done / kNf4Block, size / kNf4Block));
    if (bad >= 0) refuse_value(param, range.begin + done + bad, values[bad].item<float>());
    part.nf4.packed.narrow(0, done / 2, packed.numel()).copy_(packed);
  }
}

// Copies, in pinned memory where the shard is: what is handed in is a view of a whole parameter's,
// or a mapped file's.
kernels::Nf4Scales QuantizedShard::kept(const kernels::Nf4Scales& scales) const {
  auto copied = [this](const Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    return at::empty(tensor.sizes(), options_.dtype(tensor.scalar_type())).copy_(tensor);
  };
  return {copied(scales.codes), copied(scales.group_max), scales.offset, scales.first_block};
}

void QuantizedShard::dequantize(const Tensor& flat) const {
  for (const Part& part : parts_) {
    const Tensor out = flat.narrow(0, part.piece.in_shard, part.piece.in_param.size());
    if (part.plain.defined()) {
      out.copy_(part.plain, /*non_blocking=*/true);
    } else {
      const kernels::Nf4Weights here = on_device(part.nf4, out.device());
      kernels::nf4_dequantize(here.packed, here.scales, out);
    }
  }
}

void QuantizedShard::copy_from(const QuantizedShard& other) {
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const Part& from = other.parts_[p];
    Part& part = parts_[p];
    if (part.plain.defined()) {
      part.plain.copy_(from.plain);
      continue;
    }
    part.nf4.packed.copy_(from.nf4.packed);
    part.nf4.scales = kept(from.nf4.scales);
  }
}

std::vector<Tensor> QuantizedShard::tensors() const {
  std::vector<Tensor> all;
  for (const Part& part : parts_)
    for (const Tensor& tensor :
         {part.plain, part.nf4.packed, part.nf4.scales.codes, part.nf4.scales.group_max})
      if (tensor.defined()) all.push_back(tensor);
  return all;
}

std::int64_t QuantizedShard::bytes() const {
  std::int64_t sum = 0;
  for (const Tensor& tensor : tensors()) sum += static_cast<std::int64_t>(tensor.nbytes());
  return sum;
}

std::int64_t QuantizedShard::bytes_of(const layout::BucketPlan& plan, int rank, DType plain) {
  std::int64_t sum = 0;
  for (const layout::Piece& piece : plan.pieces(rank)) {
    const layout::Range range = piece.in_param;
    sum += plan.params()[piece.param].quantized
               ? nf4_bytes_of(range)
               : range.size() * static_cast<std::int64_t>(element_bytes(plain));
  }
  return sum;
}

std::int64_t QuantizedShard::upload_bytes_of(const layout::BucketPlan& plan, int rank) {
  std::int64_t largest = 0;
  for (const layout::Piece& piece : plan.pieces(rank))
    if (plan.params()[piece.param].quantized)
      largest = std::max(largest, nf4_bytes_of(piece.in_param));
  return largest;
}

// Numbers as they are read, rounded and wide again; the scales of the shard and of the bucket.
std::int64_t QuantizedShard::fill_bytes_of(const layout::BucketPlan& plan, DType rounded) {
  const std::int64_t per_element =
      rounded == kFloat32 ? 4 : 8 + static_cast<std::int64_t>(element_bytes(rounded));
  return std::min(kReadAtOnce, plan.shard_numel()) * per_element +
         (plan.shard_numel() + plan.padded_numel()) / kNf4Block * 4;
}

}  // namespace wmtp::parallel
