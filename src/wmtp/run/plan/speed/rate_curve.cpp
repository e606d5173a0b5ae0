#include "wmtp/run/plan/speed/rate_curve.h"

#include <algorithm>
#include <cmath>

#include "wmtp/core/error.h"

namespace wmtp::run {

RateCurve::RateCurve(double per_s) {
  points_.push_back({1, per_s});
}

RateCurve::RateCurve(std::initializer_list<RatePoint> points)
    : RateCurve(std::vector<RatePoint>(points)) {}

RateCurve::RateCurve(std::vector<RatePoint> points) : points_(std::move(points)) {
  WMTP_CHECK(!points_.empty(), "a rate has been measured somewhere");
  std::ranges::sort(points_, {}, &RatePoint::size);
}

double RateCurve::at(double size) const {
  if (size <= points_.front().size) return points_.front().per_s;
  for (std::size_t i = 1; i < points_.size(); ++i) {
    const RatePoint &low = points_[i - 1], &high = points_[i];
    if (size > high.size) continue;
    const double part = std::log(size / low.size) / std::log(high.size / low.size);
    return low.per_s * std::pow(high.per_s / low.per_s, part);
  }
  return points_.back().per_s;
}

RateCurve RateCurve::scaled(double factor) const {
  RateCurve result = *this;
  for (RatePoint& point : result.points_) point.per_s *= factor;
  return result;
}

}  // namespace wmtp::run
