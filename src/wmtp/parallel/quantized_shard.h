// A frozen shard in which the parameters marked `quantized` are kept in NF4 and the others as they
// are. Sharding changes no bit of it: shards are cut at multiples of 128 elements, so a block of 64
// lies on one rank, and the scales of a parameter, which its second level looks at together, are
// gathered while it is filled.
#pragma once
#include <vector>

#include "wmtp/comm/communicator.h"
#include "wmtp/layout/shard_plan.h"
#include "wmtp/parallel/read_param.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::parallel {

bool has_quantized(const layout::BucketPlan& plan);

class QuantizedShard {
 public:
  // Zero weights, of `options` where they are plain. `rounded`: what numbers are rounded to before
  // they are quantised.
  QuantizedShard(const layout::BucketPlan& plan, int rank, const at::TensorOptions& options,
                 DType rounded);

  struct Sources {
    const ReadParam& values;
    const ReadNf4& stored;      // may be empty
    comm::Communicator* group;  // of the ranks that share the bucket; null: this one has all of it
  };
  // Numbers that are not stored in NF4 are rounded, then quantised, a few
  // million at a time. Error data for one that is not finite. COLLECTIVE, BLOCKS in the group.
  void fill(const layout::BucketPlan& plan, const Sources& sources);

  // Those of a shard of the same shape.
  void copy_from(const QuantizedShard& other);

  // The shard's values, in any floating dtype: table * a' rounded once. `flat` begins where the
  // shard does; padding is left as it is. What is kept in host memory for a `flat` on a GPU goes
  // there in its 4 bits, a parameter at a time. STREAM.
  void dequantize(const Tensor& flat) const;

  std::vector<Tensor> tensors() const;  // all that is kept
  std::int64_t bytes() const;
  // The same of a shard that is not there, and what filling it takes besides.
  static std::int64_t bytes_of(const layout::BucketPlan& plan, int rank, DType plain);
  // On a GPU, of the largest parameter of a shard that is kept in host memory.
  static std::int64_t upload_bytes_of(const layout::BucketPlan& plan, int rank);
  static std::int64_t fill_bytes_of(const layout::BucketPlan& plan, DType rounded);

 private:
  struct Part {
    layout::Piece piece;
    Tensor plain;  // undefined: in NF4
    kernels::Nf4Weights nf4;
  };

  void fill_plain(Part& part, const layout::ParamSpec& param, const ReadParam& read) const;
  void quantize(Part& part, const layout::ParamSpec& param, const ReadParam& read,
                const Tensor& absmax) const;
  kernels::Nf4Scales kept(const kernels::Nf4Scales& scales) const;

  std::vector<Part> parts_;
  at::TensorOptions options_;
  DType rounded_;
};

}  // namespace wmtp::parallel
