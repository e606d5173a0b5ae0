// Numbers of a run.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace wmtp::tracking {

using NamedValues = std::vector<std::pair<std::string, double>>;

// What was measured at one step, under the names of docs/stages.md (`train/loss`, ...). A step may
// have several points. Where two give the same name, the later one counts in files; MLflow, which
// can take nothing back, keeps the first.
struct Point {
  std::int64_t step = 0;
  double time_s = 0;  // wall clock, seconds since 1970
  NamedValues values = {};
};

double wall_time_s();  // for Point::time_s

}  // namespace wmtp::tracking
