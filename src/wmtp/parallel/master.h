// The trained weights of a shard as they are kept between steps: in one tensor, or as fp32 numbers
// in two planes (kernels/codes/planes.h), the upper one of which is gathered and computed with
// where it lies. Copies share storage.
#pragma once
#include "wmtp/kernels/codes/planes.h"
#include "wmtp/layout/shard_plan.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::parallel {

class Master {
 public:
  static constexpr std::int64_t kJoinedAtOnce = std::int64_t{1} << 24;  // numbers; 64 MiB

  Master() = default;  // nothing is trained
  // Flat; with a lower plane, `values` is the upper one.
  explicit Master(Tensor values, Tensor lower = {})
      : values_(std::move(values)), lower_(std::move(lower)) {}
  // Zeros where the options say.
  static Master in_planes(std::int64_t size, const at::TensorOptions& options);

  bool defined() const { return values_.defined(); }
  std::int64_t numel() const { return values_.numel(); }
  std::int64_t bytes() const;
  DType dtype() const;  // of the numbers: fp32 if they lie in planes

  const Tensor& values() const { return values_; }  // all of it, or the upper plane
  const Tensor& lower() const { return lower_; }    // undefined: values() is all of it
  std::vector<Tensor> tensors() const;
  Master narrow(layout::Range range) const;

  // The numbers: a view where they lie in one tensor, else a new one beside them. STREAM.
  Tensor joined() const;
  // The same into a host tensor of dtype(); of planes on a GPU a bounded piece at a time is joined
  // there. BLOCKS unless `non_blocking`, which is STREAM into pinned memory.
  void read_into(const Tensor& host, bool non_blocking = false) const;
  // Replaces them by a host tensor of as many numbers, rounded where fewer bits are kept. BLOCKS.
  void write(const Tensor& host) const;

 private:
  kernels::Planes planes() const { return {values_, lower_}; }

  Tensor values_, lower_;
};

}  // namespace wmtp::parallel
