#include "wmtp/checkpoint/torch_view.h"

#include <algorithm>
#include <cstring>

#include "wmtp/checkpoint/safetensors_tensor.h"

namespace wmtp::checkpoint {
namespace {

// Scattered elements are brought together in a buffer of this size: small enough for the cache.
constexpr std::int64_t kGatherElements = std::int64_t{1} << 16;

template <std::size_t kBytes>
void gather_run(const std::byte* from, std::int64_t stride, std::int64_t count, std::byte* to) {
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(to + static_cast<std::size_t>(i) * kBytes,
                from + i * stride * static_cast<std::int64_t>(kBytes), kBytes);
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
    const std::size_t last = index_.size() - 1;
    while (count > 0) {
      const std::int64_t run = std::min(count, view_.shape[last] - index_[last]);
      gather(run, view_.strides[last], to);
      to += static_cast<std::size_t>(run) * item_bytes_;
      count -= run;
      advance(run);
    }
  }

 private:
  void gather(std::int64_t run, std::int64_t stride, std::byte* to) const {
    const std::byte* from = storage_.data() + static_cast<std::size_t>(place_) * item_bytes_;
    switch (item_bytes_) {
      case 1:
        return gather_run<1>(from, stride, run, to);
      case 2:
        return gather_run<2>(from, stride, run, to);
      case 4:
        return gather_run<4>(from, stride, run, to);
      default:
        return gather_run<8>(from, stride, run, to);
    }
  }

  // Along the last dimension; a full one carries into those before it.
  void advance(std::int64_t run) {
    std::size_t d = index_.size() - 1;
    index_[d] += run;
    place_ += run * view_.strides[d];
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

}  // namespace wmtp::checkpoint
