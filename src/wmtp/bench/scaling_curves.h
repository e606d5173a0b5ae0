// Predicted steps of known shapes over known links, as the tables of docs/scaling.md: nothing is
// run.
#pragma once
#include <string>
#include <vector>

namespace wmtp::bench {

// "0.6B", "6.7B", "70B"
std::vector<std::string> scaling_shapes();

struct CurveRequest {
  std::vector<std::string> shapes = scaling_shapes();
  int micro_batches = 1;
};

// Markdown: what is assumed, then a table for each shape and strategy that fits a GPU.
std::string scaling_curves(const CurveRequest& request);

}  // namespace wmtp::bench
