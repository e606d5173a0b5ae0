// Who holds what. The parameters of a unit lie end to end in flat buffers (buckets), trained and
// frozen ones apart; a bucket is cut into one range per rank, of equal length rounded up to an
// alignment (128 elements unless said otherwise), so padding is only at the end.
//   parameter -> flat range -> rank -> boxes of rows for files
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "wmtp/layout/unit_spec.h"

namespace wmtp::layout {

struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool empty() const { return end <= begin; }
  bool operator==(const Range&) const = default;
};
Range intersect(Range a, Range b);

// A stretch of one parameter inside a rank's shard.
struct Piece {
  std::size_t param = 0;      // index into params()
  Range in_param;             // elements of the parameter, row-major
  std::int64_t in_shard = 0;  // where it begins in the shard
};

class BucketPlan {
 public:
  static constexpr std::int64_t kAlignment = 128;

  BucketPlan() = default;
  BucketPlan(std::vector<ParamSpec> params, int world, std::int64_t alignment = kAlignment);

  const std::vector<ParamSpec>& params() const { return params_; }
  bool empty() const { return numel_ == 0; }
  std::int64_t numel() const { return numel_; }
  std::int64_t alignment() const { return alignment_; }
  std::int64_t shard_numel() const { return shard_numel_; }  // of every rank, padding included
  std::int64_t padded_numel() const { return shard_numel_ * world_; }
  Range param_range(std::size_t param) const { return {starts_[param], starts_[param + 1]}; }
  // The rank's part of the flat buffer without padding; may be empty.
  Range owned(int rank) const;
  std::vector<Piece> pieces(int rank) const;

 private:
  std::vector<ParamSpec> params_;
  std::vector<std::int64_t> starts_{0};
  std::int64_t numel_ = 0, shard_numel_ = 0, alignment_ = kAlignment;
  int world_ = 1;
};

struct UnitPlan {
  std::string name;
  BucketPlan trained, frozen;
  bool kept = false, full_precision = false;  // as in UnitSpec
};

// `trained_alignment`: of the trained buckets.
std::vector<UnitPlan> shard_plan(const std::vector<UnitSpec>& units, int world,
                                 std::int64_t trained_alignment = BucketPlan::kAlignment);

// A flat range of a parameter as boxes of whole or partial rows, at most three (a file holds a name
// once):
//   1 whole rows;  2 the end of a row begun before the range, or a piece within one row;  3 the
//   beginning of a row.
// Vectors are one box of kind 1. Parameters of rank > 2 count as [shape[0], rest].
struct RowBox {
  int kind = 1;
  std::vector<std::int64_t> offsets, shape;
  Range in_param;
};
std::vector<RowBox> row_boxes(const ParamSpec& param, Range in_param);

}  // namespace wmtp::layout
