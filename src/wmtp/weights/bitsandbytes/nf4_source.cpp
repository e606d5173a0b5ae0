#include "wmtp/weights/bitsandbytes/nf4_source.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "wmtp/core/error.h"
#include "wmtp/kernels/codes/dynamic_map.h"
#include "wmtp/kernels/nf4.h"
#include "wmtp/weights/bitsandbytes/quant_state.h"
#include "wmtp/weights/safetensors_tensor.h"

namespace wmtp::weights {
namespace {

using kernels::kNf4Block;

// Weights taken back at once: large enough for the file's pages to be given up after the copy.
constexpr std::int64_t kPieceWeights = std::int64_t{1} << 22;

Tensor empty_host(std::int64_t count, DType dtype) {
  return at::empty({count}, at::TensorOptions().dtype(dtype));
}

// The tensors of one weight. All are there, of the right dtypes and sizes.
struct Nf4Weight {
  QuantState state;
  const StoredTensor *packed, *absmax, *group_max = nullptr;
};

// Finds the companions of weights, and holds them against what their state says.
class CompanionFinder {
 public:
  explicit CompanionFinder(const WeightSource& inner) : inner_(inner) {}

  // `stored`: the tensor of the state, `name` and `type` the two parts of its name.
  Nf4Weight find(const StoredTensor& stored, const std::string& name, std::string_view type) {
    if (type != "nf4")
      throw Error(ErrorKind::config, "checkpoint",
                  fmt::format("{}: {} is stored as {:.40}", inner_.file_of(stored), name, type),
                  "of bitsandbytes' types NF4 is read; name the unquantised model instead");
    Nf4Weight weight;
    weight.state = read_state(stored);
    const QuantState& state = weight.state;
    const bool nested = state.nested_offset.has_value();
    weight.packed = packed(name, state);
    weight.absmax = companion(name + ".absmax", nested ? StoredDtype::U8 : StoredDtype::F32,
                              state.num_blocks());
    check_table(name + ".quant_map", kernels::nf4_table());
    if (!nested) return weight;
    weight.group_max = companion(name + ".nested_absmax", StoredDtype::F32, state.num_groups());
    check_table(name + ".nested_quant_map", kernels::signed_dynamic_map());
    return weight;
  }

  std::set<std::string, std::less<>> found;  // names of companions

 private:
  [[noreturn]] void refuse(ErrorKind kind, const StoredTensor& tensor, const std::string& fact,
                           const char* hint = "") const {
    throw Error(kind, "checkpoint",
                fmt::format("{}: {} {}", inner_.file_of(tensor), tensor.name, fact), hint);
  }

  const StoredTensor& present(const std::string& name) const {
    const StoredTensor* tensor = inner_.find(name);
    if (!tensor)
      throw Error(ErrorKind::data, "checkpoint",
                  fmt::format("tensor {} is missing, without which its weight of 4 bits cannot be "
                              "read",
                              name),
                  "get the model's files again");
    return *tensor;
  }

  QuantState read_state(const StoredTensor& stored) {
    found.insert(stored.name);
    if (stored.dtype != StoredDtype::U8 || stored.shape.size() != 1 ||
        static_cast<std::uint64_t>(stored.shape[0]) > kMaxQuantStateBytes)
      refuse(ErrorKind::data, stored,
             fmt::format("is {} {}, not up to {} bytes of text", name_of(stored.dtype),
                         shape_text(stored.shape), kMaxQuantStateBytes));
    const Tensor text = empty_host(stored.shape[0], c10::ScalarType::Byte);
    inner_.read(stored, 0, text);
    const auto bytes = bytes_of(text);
    return parse_quant_state({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                             fmt::format("{}: {}", inner_.file_of(stored), stored.name));
  }

  void require(const StoredTensor& tensor, StoredDtype dtype,
               const std::vector<std::int64_t>& shape) const {
    if (tensor.dtype != dtype || tensor.shape != shape)
      refuse(ErrorKind::data, tensor,
             fmt::format("is {} {}, its state says {} {}", name_of(tensor.dtype),
                         shape_text(tensor.shape), name_of(dtype), shape_text(shape)));
  }

  const StoredTensor* packed(const std::string& name, const QuantState& state) const {
    const StoredTensor& tensor = present(name);
    if (tensor.dtype != StoredDtype::U8)
      refuse(ErrorKind::config, tensor,
             fmt::format("holds its 4-bit numbers as {}", name_of(tensor.dtype)),
             "wmtp reads bnb_4bit_quant_storage uint8; name the unquantised model instead");
    require(tensor, StoredDtype::U8, {state.num_bytes(), 1});
    return &tensor;
  }

  const StoredTensor* companion(const std::string& name, StoredDtype dtype, std::int64_t size) {
    const StoredTensor& tensor = present(name);
    require(tensor, dtype, {size});
    found.insert(name);
    return &tensor;
  }

  void check_table(const std::string& name, std::span<const float> table) {
    const auto size = static_cast<std::int64_t>(table.size());
    const StoredTensor& tensor = *companion(name, StoredDtype::F32, size);
    const Tensor stored = empty_host(size, kFloat32);
    inner_.read(tensor, 0, stored);
    if (std::memcmp(stored.const_data_ptr(), table.data(), table.size_bytes()) != 0)
      refuse(ErrorKind::data, tensor, "is not the table of this format",
             "the weights would be read as other numbers");
  }

  const WeightSource& inner_;
};

class Nf4Source final : public WeightSource {
 public:
  explicit Nf4Source(std::unique_ptr<WeightSource> inner) : inner_(std::move(inner)) {
    CompanionFinder finder(*inner_);
    std::map<std::string, Nf4Weight, std::less<>> weights;
    for (const StoredTensor& stored : inner_->tensors())
      if (const auto at = stored.name.rfind(kQuantStateInfix); at != std::string::npos) {
        const std::string name = stored.name.substr(0, at);
        weights.emplace(
            name, finder.find(stored, name,
                              std::string_view(stored.name).substr(at + kQuantStateInfix.size())));
      }
    for (const StoredTensor& stored : inner_->tensors()) {
      if (finder.found.contains(stored.name)) continue;
      Entry entry{&stored, std::nullopt};
      tensors_.push_back(stored);
      if (const auto at = weights.find(stored.name); at != weights.end()) {
        tensors_.back().dtype = at->second.state.dtype;
        tensors_.back().shape = at->second.state.shape;
        entry.nf4 = at->second;
      }
      entries_.push_back(std::move(entry));
    }
  }

  std::span<const StoredTensor> tensors() const override { return tensors_; }
  std::string file_of(const StoredTensor& tensor) const override {
    return inner_->file_of(*entry(tensor).stored);
  }

  using WeightSource::read;
  void read(const StoredTensor& tensor, std::int64_t element_begin, Tensor dst) const override {
    const Entry& from = entry(tensor);
    if (!from.nf4) return inner_->read(*from.stored, element_begin, std::move(dst));
    const Tensor flat = dst.view({-1});
    for (std::int64_t done = 0; done < flat.numel();) {
      const std::int64_t at = element_begin + done;
      const std::int64_t first = at / kNf4Block * kNf4Block;
      const std::int64_t count = std::min(flat.numel() - done, first + kPieceWeights - at);
      const Tensor values = values_of(from, first, at + count - first);
      flat.narrow(0, done, count).copy_(values.narrow(0, at - first, count));
      done += count;
    }
  }

  std::optional<kernels::Nf4Weights> read_nf4(const StoredTensor& tensor,
                                              std::int64_t element_begin,
                                              std::int64_t count) const override {
    const Entry& from = entry(tensor);
    if (!from.nf4) return std::nullopt;
    return blocks_of(from, element_begin, count);
  }

  bool has_nf4(const StoredTensor& tensor) const override { return entry(tensor).nf4.has_value(); }

 private:
  struct Entry {
    const StoredTensor* stored;
    std::optional<Nf4Weight> nf4;
  };

  const Entry& entry(const StoredTensor& tensor) const {
    return entries_[static_cast<std::size_t>(&tensor - tensors_.data())];
  }

  Tensor read_part(const StoredTensor& tensor, std::int64_t begin, std::int64_t count) const {
    const Tensor part = empty_host(count, *to_dtype(tensor.dtype));
    inner_->read(tensor, begin, part);
    return part;
  }

  kernels::Nf4Weights blocks_of(const Entry& from, std::int64_t begin, std::int64_t count) const {
    const Nf4Weight& weight = *from.nf4;
    WMTP_CHECK(begin % kNf4Block == 0 && begin + count <= weight.state.numel(),
               fmt::format("elements {}..{} of {}", begin, begin + count, from.stored->name));
    kernels::Nf4Weights blocks;
    blocks.packed = read_part(*weight.packed, begin / 2, kernels::nf4_bytes(count));
    kernels::Nf4Scales& scales = blocks.scales;
    scales.first_block = begin / kNf4Block;
    const std::int64_t num_blocks = kernels::nf4_blocks(count);
    scales.codes = read_part(*weight.absmax, scales.first_block, num_blocks);
    if (weight.group_max) {
      const std::int64_t group = scales.first_block / kernels::kNf4Group;
      const std::int64_t end = kernels::nf4_groups(scales.first_block + num_blocks);
      scales.group_max = read_part(*weight.group_max, group, end - group);
      scales.offset = *weight.state.nested_offset;
    }
    require_finite_scales(*from.stored, scales);
    return blocks;
  }

  void require_finite_scales(const StoredTensor& tensor, const kernels::Nf4Scales& scales) const {
    const Tensor all = kernels::nf4_scales(scales);
    const float* values = all.const_data_ptr<float>();
    for (std::int64_t block = 0; block < all.numel(); ++block)
      if (!std::isfinite(values[block]))
        throw Error(ErrorKind::data, "checkpoint",
                    fmt::format("{}: the scale of block {} of {} is {}", inner_->file_of(tensor),
                                scales.first_block + block, tensor.name, values[block]),
                    "get the model's files again");
  }

  // In the dtype that the state names; `begin` is the first of a block.
  Tensor values_of(const Entry& from, std::int64_t begin, std::int64_t count) const {
    const DType dtype = *to_dtype(from.nf4->state.dtype);
    const kernels::Nf4Weights blocks = blocks_of(from, begin, count);
    const Tensor values = empty_host(count, dtype == kFloat16 ? kFloat32 : dtype);
    kernels::nf4_dequantize(blocks.packed, blocks.scales, values);
    return values.to(dtype);
  }

  std::unique_ptr<WeightSource> inner_;
  std::vector<StoredTensor> tensors_;
  std::vector<Entry> entries_;  // parallel to tensors_
};

}  // namespace

std::unique_ptr<WeightSource> decode_bitsandbytes(std::unique_ptr<WeightSource> inner) {
  const bool has_any = std::ranges::any_of(inner->tensors(), [](const StoredTensor& tensor) {
    return tensor.name.find(kQuantStateInfix) != std::string::npos;
  });
  if (!has_any) return inner;
  return std::make_unique<Nf4Source>(std::move(inner));
}

}  // namespace wmtp::weights
