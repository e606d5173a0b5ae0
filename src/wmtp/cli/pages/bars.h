// Drawings of counts: columns along an axis, stacked by kind, and one bar cut into shares. The
// sizes are those of the report's drawings (tracking/report/chart.h), so that text has one size.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace wmtp::cli::pages {

struct Column {
  double left = 0, right = 0;        // on the axis
  std::vector<std::uint64_t> parts;  // one a kind
  std::string text = {};             // shown over it with its counts
};

struct ColumnChart {
  std::string title = {};  // read out by screen readers
  std::string x_label = {};
  std::vector<std::string> kinds = {};  // names; their order is the order of colours
  std::vector<Column> columns = {};     // by rising place
  bool as_shares = false;               // every column is as high as its sum is 1
};
// With a legend below it where there are several kinds. "" without a column.
std::string to_svg(const ColumnChart& chart);

struct Share {
  std::string name;
  std::uint64_t count = 0;
  std::string color_class;  // "f0" .. "f7", "half" or "none" of page_style.h
};
// One bar, and what its parts are with their counts and percentages.
std::string share_bar(const std::vector<Share>& shares);

}  // namespace wmtp::cli::pages
