#include "wmtp/weights/torch_view.h"

#include <algorithm>
#include <cstring>

#include "wmtp/weights/safetensors_tensor.h"

namespace wmtp::weights {
namespace {

// Scattered elements are brought together in a buffer of this size: several rows of a matrix.
constexpr std::int64_t kGatherElements = std::int64_t{1} << 20;

// Rows of columns with these strides in the storage, to rows that follow each other. The loops
// walk the storage by its smaller stride: of a transposed matrix every cache line is then read
// once, not once an element.
struct GatherBlock {
  std::int64_t rows = 1, columns = 0, row_stride = 0, column_stride = 0;
};

template <std::size_t kBytes>
void gather_block(const std::byte* from, const GatherBlock& block, std::byte* to) {
  constexpr auto kItem = static_cast<std::int64_t>(kBytes);
  const auto copy = [&](std::int64_t r, std::int64_t c) {
    std::memcpy(to + (r * block.columns + c) * kItem,
                from + (r * block.row_stride + c * block.column_stride) * kItem, kBytes);
  };
  if (block.column_stride <= block.row_stride) {
    for (std::int64_t r = 0; r < block.rows; ++r)
      for (std::int64_t c = 0; c < block.columns; ++c) copy(r, c);
  } else {
    for (std::int64_t c = 0; c < block.columns; ++c)
      for (std::int64_t r = 0; r < block.rows; ++r) copy(r, c);
  }
}

// Walks a view of at least one dimension and one element in row order.
class ViewWalk {
 public:
  ViewWalk(const PickledTensor& view, std::span<const std::byte> storage, std::int64_t first)
      : view_(view),
        storage_(storage),
        item_bytes_(bits_of(view.dtype) / 8),
        index_(view.shape.size()),
        place_(view.offset) {
    for (std::size_t d = view.shape.size(); d-- > 0;) {
      index_[d] = first % view.shape[d];
      first /= view.shape[d];
      place_ += index_[d] * view.strides[d];
    }
  }

  // The next `count` elements. REQUIRES that there are as many.
  void gather(std::int64_t count, std::byte* to) {
    while (count > 0) {
      const GatherBlock block = next_block(count);
      gather(block, to);
      const std::int64_t taken = block.rows * block.columns;
      to += static_cast<std::size_t>(taken) * item_bytes_;
      count -= taken;
      advance(block);
    }
  }

 private:
  // Whole rows of the last two dimensions where they begin here, else a part of one.
  GatherBlock next_block(std::int64_t count) const {
    const std::size_t last = index_.size() - 1;
    GatherBlock block{1, std::min(count, view_.shape[last] - index_[last]), 0, view_.strides[last]};
    if (last == 0 || block.columns != view_.shape[last]) return block;
    block.rows = std::min(count / block.columns, view_.shape[last - 1] - index_[last - 1]);
    block.row_stride = view_.strides[last - 1];
    return block;
  }

  void gather(const GatherBlock& block, std::byte* to) const {
    const std::byte* from = storage_.data() + static_cast<std::size_t>(place_) * item_bytes_;
    switch (item_bytes_) {
      case 1:
        return gather_block<1>(from, block, to);
      case 2:
        return gather_block<2>(from, block, to);
      case 4:
        return gather_block<4>(from, block, to);
      default:
        return gather_block<8>(from, block, to);
    }
  }

  // A dimension that is full carries into the one before it.
  void advance(const GatherBlock& block) {
    std::size_t d = index_.size() - 1;
    const std::int64_t steps = block.rows > 1 ? block.rows : block.columns;
    if (block.rows > 1) --d;
    index_[d] += steps;
    place_ += steps * view_.strides[d];
    for (; d > 0 && index_[d] == view_.shape[d]; --d) {
      place_ += view_.strides[d - 1] - index_[d] * view_.strides[d];
      index_[d] = 0;
      ++index_[d - 1];
    }
  }

  const PickledTensor& view_;
  std::span<const std::byte> storage_;
  std::size_t item_bytes_;
  std::vector<std::int64_t> index_;
  std::int64_t place_;  // of the element at index_, in elements of the storage
};

}  // namespace

bool is_contiguous(const PickledTensor& view) {
  std::int64_t expected = 1;
  for (std::size_t i = view.shape.size(); i-- > 0;) {
    if (view.shape[i] != 1 && view.strides[i] != expected) return false;
    expected *= view.shape[i];
  }
  return true;
}

void copy_view(const PickledTensor& view, std::span<const std::byte> storage,
               std::int64_t element_begin, const Tensor& dst) {
  const std::size_t item_bytes = bits_of(view.dtype) / 8;
  if (is_contiguous(view) || dst.numel() == 0) {
    const auto from = storage.subspan(static_cast<std::size_t>(view.offset) * item_bytes);
    return copy_elements({"", view.dtype, view.shape, 0, 0}, from, element_begin, dst);
  }
  ViewWalk walk(view, storage, element_begin);
  const Tensor flat = dst.view({-1});
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(kGatherElements, flat.numel())) *
                                item_bytes);
  for (std::int64_t done = 0; done < flat.numel(); done += kGatherElements) {
    const std::int64_t count = std::min(kGatherElements, flat.numel() - done);
    walk.gather(count, buffer.data());
    copy_elements({"", view.dtype, {count}, 0, 0}, buffer, 0, flat.narrow(0, done, count));
  }
}

}  // namespace wmtp::weights
