// How a quantity is spread at one step.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace wmtp::tracking {

struct Histogram {
  std::int64_t step = 0;
  std::string name = {};                   // "weight", "value", ...
  std::vector<double> edges = {};          // rising; one more than counts
  std::vector<std::uint64_t> counts = {};  // of [edges[i], edges[i+1]), the last bin closed
};

// Counts `values` into `num_bins` equal bins from the smallest to the largest finite one.
Histogram make_histogram(std::string name, std::int64_t step, const std::vector<double>& values,
                         std::size_t num_bins = 40);

}  // namespace wmtp::tracking
