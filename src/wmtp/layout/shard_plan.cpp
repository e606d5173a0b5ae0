#include "wmtp/layout/shard_plan.h"

#include <algorithm>

#include "wmtp/core/error.h"

namespace wmtp::layout {

Range intersect(Range a, Range b) {
  const Range both{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return both.empty() ? Range{both.begin, both.begin} : both;
}

BucketPlan::BucketPlan(std::vector<ParamSpec> params, int world, std::int64_t alignment)
    : params_(std::move(params)), alignment_(alignment), world_(world) {
  WMTP_CHECK(world >= 1, "a plan needs at least one rank");
  WMTP_CHECK(alignment >= 1, "a plan cuts at multiples of one element or more");
  for (const ParamSpec& param : params_) starts_.push_back(starts_.back() + param.numel());
  numel_ = starts_.back();
  const std::int64_t even = (numel_ + world - 1) / world;
  shard_numel_ = (even + alignment - 1) / alignment * alignment;
}

Range BucketPlan::owned(int rank) const {
  return {std::min(rank * shard_numel_, numel_), std::min((rank + 1) * shard_numel_, numel_)};
}

std::vector<Piece> BucketPlan::pieces(int rank) const {
  const Range mine = owned(rank);
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const Range flat = intersect(mine, param_range(i));
    if (flat.empty()) continue;
    pieces.push_back({.param = i,
                      .in_param = {flat.begin - starts_[i], flat.end - starts_[i]},
                      .in_shard = flat.begin - mine.begin});
  }
  return pieces;
}

std::vector<UnitPlan> shard_plan(const std::vector<UnitSpec>& units, int world,
                                 std::int64_t trained_alignment) {
  std::vector<UnitPlan> plan;
  for (const UnitSpec& unit : units) {
    std::vector<ParamSpec> trained, frozen;
    for (const ParamSpec& param : unit.params) (param.trained ? trained : frozen).push_back(param);
    plan.push_back({unit.name, BucketPlan(std::move(trained), world, trained_alignment),
                    BucketPlan(std::move(frozen), world), unit.kept, unit.full_precision});
  }
  return plan;
}

std::vector<RowBox> row_boxes(const ParamSpec& param, Range in_param) {
  std::vector<RowBox> boxes;
  if (in_param.empty()) return boxes;
  if (param.shape.size() <= 1)
    return {
        {.kind = 1, .offsets = {in_param.begin}, .shape = {in_param.size()}, .in_param = in_param}};
  const std::int64_t columns = param.numel() / param.shape[0];
  auto add = [&](int kind, std::int64_t begin, std::int64_t end, std::vector<std::int64_t> shape) {
    if (begin < end)
      boxes.push_back({kind, {begin / columns, begin % columns}, std::move(shape), {begin, end}});
  };
  std::int64_t at = in_param.begin;
  if (at % columns != 0) {
    const std::int64_t end = std::min(in_param.end, (at / columns + 1) * columns);
    add(2, at, end, {1, end - at});
    at = end;
  }
  const std::int64_t whole_end = std::max(at, in_param.end / columns * columns);
  add(1, at, whole_end, {(whole_end - at) / columns, columns});
  add(3, whole_end, in_param.end, {1, in_param.end - whole_end});
  return boxes;
}

}  // namespace wmtp::layout
