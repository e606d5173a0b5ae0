// What `score` writes: one JSON line a row, made by the rank that computed it and put out by rank
// 0.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace wmtp::models {

// [k - 1][i] of the prediction of ids[i + k]; nothing where there is no target.
using ByTarget = std::vector<std::vector<std::optional<float>>>;

struct ScoredRow {
  std::uint64_t row = 0;
  std::uint32_t part = 0;  // of a block of several documents
  struct Place {           // in a step
    std::size_t micro_batch = 0;
    int rank = 0;
  };
  std::optional<Place> place;
  std::span<const std::int32_t> ids;  // BORROWED
  ByTarget nll;
  std::optional<std::vector<float>> values;  // one a token
  std::optional<ByTarget> weights;
};

struct ScoreSummary {
  std::uint64_t num_tokens = 0;  // targets of head 1
  double nll_sum = 0;            // of head 1
};

using WriteLine = std::function<void(std::string_view line)>;

// Adds the row's line to what a rank sends. A number that is not finite is Error numeric.
void append_line(std::string& message, const ScoredRow& row);
// The lines of all ranks' messages, in order, and their sums.
void put_out(std::span<const std::string> messages, ScoreSummary& summary, const WriteLine& write);

}  // namespace wmtp::models
