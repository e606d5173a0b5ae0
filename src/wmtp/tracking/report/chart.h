// Inline SVG drawings without scripts. Colours are classes k0..k7 of the page's style sheet, so
// they follow light and dark screens; dashes say validation. A drawing has a fixed size in pixels,
// so that its text has the size of all other text, however many stand beside it. Every coordinate
// is a finite number.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/tracking/report/recorded/run_data.h"

namespace wmtp::tracking {

inline constexpr std::size_t kNumChartColors = 8;  // then they repeat

struct Curve {
  std::string label = {};
  Series points = {};
  std::size_t color = 0;
  bool dashed = false;   // it is of validations
  Series smoothed = {};  // drawn over the points where the page's switch asks for it; or empty
};

// A step that stands out.
struct Mark {
  enum class Kind { restart, save, best };
  Kind kind = Kind::restart;
  std::int64_t step = 0;
  std::string text = {};                  // "restart at 40"
  std::optional<double> value = {};       // of the best: where its curve is, if that is drawn
  std::optional<std::size_t> color = {};  // of the run it belongs to, where there are several
};

// What points and marks call a step is any whole number: a step, a token, a millisecond.
struct LineChart {
  std::string title = {};    // read out by screen readers
  std::string x_label = {};  // "step"
  std::vector<Curve> curves = {};
  std::vector<Mark> marks = {};
  double x_unit = 1;   // how much of x is 1 on its axis: 60000 for milliseconds shown as minutes
  bool log_y = false;  // values that are not above 0 leave gaps
  bool dots = true;    // on curves of few points, each with its numbers
};

// The drawing and, below it, a legend with the last value of each curve and what the marks are.
// Values that are not finite leave gaps. "" where there is nothing to draw.
std::string to_svg(const LineChart& chart);
std::string to_svg(const Histogram& histogram);
// Its two parts, for drawings that share a legend.
std::string chart_drawing(const LineChart& chart);
std::string chart_legend(const LineChart& chart);

// At most 2 * `buckets` points with the same outline: the extremes of each bucket.
Series thinned(const Series& points, std::size_t buckets);
// Round numbers that cover [low, high]: 2 to 8 of them.
std::vector<double> nice_ticks(double low, double high);
// The same for logarithmic axes; REQUIRES 0 < low <= high.
std::vector<double> log_ticks(double low, double high);
// The mean around each point over a twentieth of all points (at least 5), narrower towards the
// ends, so that a trend is not shifted. What is not finite stays as it is and counts nowhere.
Series running_mean(const Series& points);

}  // namespace wmtp::tracking
