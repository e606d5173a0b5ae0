#include "wmtp/run/checkpoints/moment_tensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

namespace wmtp::run {
namespace {

using kernels::kCodeBlock;
using kernels::num_code_blocks;
using optim::Moment;

constexpr const char* kCodes = "8 bits";

std::string format_name(DType dtype) {
  return dtype == at::kByte ? kCodes : std::string(wmtp::name_of(dtype));
}

Tensor host_tensor(std::int64_t size, DType dtype) {
  return at::empty({size}, at::TensorOptions().dtype(dtype));
}

// One moment of one shard.
class MomentLoader {
 public:
  MomentLoader(const layout::BucketPlan& plan, const optim::ShardMoments& moments, Moment moment,
               const StateReader& reader)
      : plan_(plan), moments_(moments), moment_(moment), reader_(reader) {}

  Conversions load(int rank) {
    std::vector<layout::Piece> quantized;
    for (const layout::Piece& piece : plan_.pieces(rank)) {
      if (moments_.is_quantized(piece.in_shard))
        quantized.push_back(piece);
      else
        load_numbers(piece);
    }
    if (std::ranges::all_of(quantized, [this](const auto& piece) { return has_codes(piece); }))
      for (const layout::Piece& piece : quantized) load_codes(piece);
    else
      quantize(quantized);
    return std::move(conversions_);
  }

 private:
  const std::string& name_of(const layout::Piece& piece) const {
    return plan_.params()[piece.param].name;
  }
  BlocksOfParam blocks_of(const layout::Piece& piece) const {
    return {plan_.param_range(piece.param).begin};
  }
  layout::Range in_shard(const layout::Piece& piece) const {
    return {piece.in_shard, piece.in_shard + piece.in_param.size()};
  }
  bool has_codes(const layout::Piece& piece) const {
    return !reader_.dtype_of(moment_name(name_of(piece), moment_)) &&
           reader_.dtype_of(codes_name(name_of(piece), moment_));
  }

  kernels::MomentCodes read_codes(const layout::Piece& piece) const {
    const layout::Range blocks = blocks_of(piece).touched(piece.in_param);
    const kernels::MomentCodes found{host_tensor(piece.in_param.size(), at::kByte),
                                     host_tensor(blocks.size(), kFloat32)};
    reader_.read(codes_name(name_of(piece), moment_), piece.in_param.begin, found.codes);
    reader_.read(scales_name(name_of(piece), moment_), blocks.begin, found.scales);
    return found;
  }

  void load_codes(const layout::Piece& piece) {
    const kernels::MomentCodes found = read_codes(piece);
    const auto kept = moments_.view(moment_, in_shard(piece));
    kept.values.copy_(found.codes);
    kept.scales.copy_(found.scales);
  }

  // As numbers of the dtype of `out`, whatever they were saved as. `kept`: what they will be.
  void read_numbers(const layout::Piece& piece, const Tensor& out, DType kept) {
    if (!has_codes(piece)) {
      const std::string name = moment_name(name_of(piece), moment_);
      reader_.read(name, piece.in_param.begin, out);
      return note(*reader_.dtype_of(name), kept);
    }
    const Tensor numbers = host_tensor(out.numel(), kFloat32);
    const std::int64_t first = blocks_of(piece).start + piece.in_param.begin;
    kernels::dequantize(moment_, read_codes(piece), first % kCodeBlock, numbers);
    out.copy_(numbers);
    note(at::kByte, kept);
  }

  void load_numbers(const layout::Piece& piece) {
    const Tensor kept = moments_.view(moment_, in_shard(piece)).values;
    const Tensor host = host_tensor(kept.numel(), kept.scalar_type());
    read_numbers(piece, host, kept.scalar_type());
    kept.copy_(host);
  }

  // All at once: pieces of two parameters may share a block.
  void quantize(const std::vector<layout::Piece>& pieces) {
    const layout::Range all{0, moments_.layout().quantized};
    const Tensor numbers = at::zeros({all.size()}, at::TensorOptions().dtype(kFloat32));
    for (const layout::Piece& piece : pieces)
      read_numbers(piece, numbers.narrow(0, piece.in_shard, piece.in_param.size()), at::kByte);
    const kernels::MomentCodes made{host_tensor(all.size(), at::kByte),
                                    host_tensor(num_code_blocks(all.size()), kFloat32)};
    kernels::quantize(moment_, numbers, made);
    const auto kept = moments_.view(moment_, all);
    kept.values.copy_(made.codes);
    kept.scales.copy_(made.scales);
  }

  void note(DType saved, DType kept) {
    if (saved != kept) conversions_.emplace(format_name(saved), format_name(kept));
  }

  const layout::BucketPlan& plan_;
  const optim::ShardMoments& moments_;
  Moment moment_;
  const StateReader& reader_;
  Conversions conversions_;
};

}  // namespace

std::string moment_name(const std::string& parameter, Moment moment) {
  return fmt::format("optim.state.{}.{}", parameter,
                     moment == Moment::first ? "exp_avg" : "exp_avg_sq");
}

std::string codes_name(const std::string& parameter, Moment moment) {
  return moment_name(parameter, moment) + ".codes";
}

std::string scales_name(const std::string& parameter, Moment moment) {
  return moment_name(parameter, moment) + ".scales";
}

layout::Range BlocksOfParam::touched(layout::Range in_param) const {
  const std::int64_t first = start / kCodeBlock;
  return {(start + in_param.begin) / kCodeBlock - first,
          num_code_blocks(start + in_param.end) - first};
}

Conversions load_shard_moments(const layout::BucketPlan& plan, int rank,
                               const optim::ShardMoments& moments, const StateReader& reader) {
  Conversions conversions;
  for (const Moment moment : optim::kMoments)
    conversions.merge(MomentLoader(plan, moments, moment, reader).load(rank));
  return conversions;
}

}  // namespace wmtp::run
