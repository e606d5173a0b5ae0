// What curves are drawn over: steps, tokens, or the time that training took.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/tracking/report/recorded/run_data.h"

namespace wmtp::tracking {

enum class XAxis { step, tokens, time };
const char* name_of(XAxis axis);

// Where the steps of a run are on an axis: tokens, or milliseconds. What was recorded at no such
// step lies between its neighbours.
class StepPlaces {
 public:
  StepPlaces(const RunData& run, XAxis axis);

  bool empty() const { return axis_ != XAxis::step && places_.empty(); }
  std::int64_t last() const { return places_.empty() ? 0 : places_.back().place; }
  // Nothing for a step that the axis does not reach, and for one that a restart went back behind
  // and has not done again.
  std::optional<std::int64_t> of(std::int64_t step) const;
  Series moved(const Series& points) const;  // those that have a place

 private:
  struct Place {
    std::int64_t step = 0, place = 0;
  };
  XAxis axis_;
  std::vector<Place> places_;  // by rising step, and rising place
};

// How the last place of an axis is written: (1000, "time, s"), (1, "tokens").
struct AxisUnit {
  double size = 1;
  std::string label;
};
AxisUnit unit_of(XAxis axis, std::int64_t last);

}  // namespace wmtp::tracking
