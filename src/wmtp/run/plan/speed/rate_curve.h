// A rate that depends on a size, from measured points: straight between two of them on logarithmic
// axes, that of the end beyond both ends.
#pragma once
#include <initializer_list>
#include <vector>

namespace wmtp::run {

struct RatePoint {
  double size = 1, per_s = 1;  // both > 0
};

class RateCurve {
 public:
  RateCurve() : RateCurve(1.0) {}
  RateCurve(double per_s);  // at every size
  // Any order; REQUIRES one point or more.
  RateCurve(std::vector<RatePoint> points);
  RateCurve(std::initializer_list<RatePoint> points);

  double at(double size) const;
  RateCurve scaled(double factor) const;
  const std::vector<RatePoint>& points() const { return points_; }

 private:
  std::vector<RatePoint> points_;  // ascending
};

}  // namespace wmtp::run
