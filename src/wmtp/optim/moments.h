// The two moments of a unit's shard, however a recipe keeps them: the matrices of a block in 8 bits
// from the start of the shard, what follows them as floating-point numbers. Without 8 bits, all of
// it is the latter. What asks for a range of a moment gets a view of what is kept of it.
#pragma once
#include <array>
#include <vector>

#include "wmtp/kernels/codes/moment_codes.h"
#include "wmtp/layout/shard_plan.h"
#include "wmtp/optim/recipe.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::optim {

using kernels::Moment;
inline constexpr std::array kMoments{Moment::first, Moment::second};

// What decides about the moments of a unit.
struct MomentRules {
  Recipe recipe = Recipe::fp32;
  bool is_block = true;         // false: embedding, unembedding, value head
  bool full_precision = false;  // as layout::UnitSpec has it
  DType master = kFloat32;      // of its numbers, which may lie in planes
};
// Elements of the unit's flat trained buffer in 8 bits, from its start: the matrices it begins
// with.
std::int64_t num_quantized(const std::vector<layout::ParamSpec>& trained, const MomentRules& rules);
// Of all others.
DType wide_dtype(const MomentRules& rules);

// Where they lie in one rank's shard, padding included.
struct MomentLayout {
  std::int64_t quantized = 0, wide = 0;  // elements: the former first
  DType dtype = kFloat32;                // of the latter
  std::int64_t bytes() const;            // of both moments
};
MomentLayout moment_layout(const layout::BucketPlan& plan, int rank, const MomentRules& rules);

class ShardMoments {
 public:
  // Zeros where the options say. REQUIRES with 8 bits a plan cut at multiples of kCodeBlock.
  ShardMoments(const MomentLayout& layout, const at::TensorOptions& options);

  const MomentLayout& layout() const { return layout_; }
  bool is_quantized(std::int64_t in_shard) const { return in_shard < layout_.quantized; }

  // What is kept of elements of the shard. REQUIRES that they are kept alike.
  struct View {
    Tensor values;  // [size]: codes or numbers
    Tensor scales;  // of the blocks that the codes touch; undefined for numbers
  };
  View view(Moment moment, layout::Range in_shard) const;
  // All there is, for whoever counts or compares it.
  std::vector<Tensor> tensors() const;

 private:
  struct Kept {
    Tensor codes, scales, numbers;
  };
  MomentLayout layout_;
  std::array<Kept, 2> kept_;  // by Moment
};

}  // namespace wmtp::optim
