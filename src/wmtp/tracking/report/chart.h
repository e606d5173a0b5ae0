// Inline SVG drawings without scripts. Colours and dashes are classes k0..k7 of the page's style
// sheet, so they follow light and dark screens; every coordinate is a finite number.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "wmtp/tracking/report/run_data.h"

namespace wmtp::tracking {

struct Curve {
  std::string label = {};
  Series points = {};
};

struct LineChart {
  std::string title = {};                // read out by screen readers
  std::string x_label = {};              // "step"
  std::vector<Curve> curves = {};        // at most 8 colours, then they repeat
  std::vector<std::int64_t> marks = {};  // vertical lines: restarts
};

// The drawing and, below it, a legend with the last value of each curve. Values that are not finite
// leave gaps. "" where there is nothing to draw.
std::string to_svg(const LineChart& chart);
std::string to_svg(const Histogram& histogram);

// At most 2 * `buckets` points with the same outline: the extremes of each bucket.
Series thinned(const Series& points, std::size_t buckets);
// Round numbers that cover [low, high]: 2 to 8 of them.
std::vector<double> nice_ticks(double low, double high);

}  // namespace wmtp::tracking
