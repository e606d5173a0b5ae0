// The samples of a run or an epoch, drawn from the candidates. A sample is a row or a pair of rows.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/core/checksum.h"
#include "wmtp/data/options.h"
#include "wmtp/data/sampling/quota.h"
#include "wmtp/data/sampling/row_table.h"

namespace wmtp::data {

struct RowPair {
  std::uint32_t positive = 0, negative = 0;
  std::int16_t length_bin = -1;  // of length-balanced pairs
  auto operator<=>(const RowPair&) const = default;
};

struct BinReport {
  std::string name;
  std::uint64_t num_candidates = 0, quota = 0, num_correct = 0, num_incorrect = 0;
};

struct DrawReport {
  std::vector<BinReport> bins;
  std::uint64_t num_candidates = 0;
  std::uint64_t num_without_bin = 0;     // candidates excluded: no bin holds them
  std::uint64_t num_of_other_class = 0;  // candidates excluded: a correct_ratio of 1 or 0
  std::uint64_t num_below_length_bins = 0;
  // Of pairs: candidates that belong to no problem; problems with a candidate, and those of them
  // whose candidates are all correct or all incorrect.
  std::uint64_t num_without_problem = 0, num_problems = 0, num_one_sided = 0;
  std::uint64_t num_topped_up = 0;    // drawn from the other class
  std::uint64_t num_drawn_again = 0;  // curriculum: used before in this epoch
};

struct SampleList {
  bool paired = false;
  std::vector<std::uint32_t> rows;  // of not paired
  std::vector<RowPair> pairs;       // of paired
  std::uint64_t size() const { return paired ? pairs.size() : rows.size(); }
  // SHA-256 of the row ids, little-endian, in order.
  Sha256Digest digest() const;
};

// Rows used in an earlier piece of a curriculum epoch (of a pair: its positive row).
using UsedRows = std::vector<bool>;

// Names the generator's streams: "<prefix>rows/all". Empty for a fixed training set; "validation/",
// "epoch/3/" (drawn anew each epoch), "curriculum/3/1/" (epoch, piece).
struct DrawRequest {
  const RowTable& table;
  const SamplingOptions& options;
  std::string prefix;
  std::uint64_t num_samples = 0;  // ignored where `all`
  bool all = false;
  const config::DifficultyWeights& weights;
  UsedRows* used = nullptr;  // prefer rows not in it, then add what was drawn
  // Streams that make pairs, where they differ from `prefix`: the pieces of an epoch share their
  // pairs.
  std::optional<std::string> pair_prefix = std::nullopt;
  std::string_view count_key = "data_sampling.n_samples";  // where num_samples comes from

  Wanted wanted() const {
    return {num_samples, options.use_pairwise ? "pairs" : "rows", count_key};
  }
};

// Data errors: a shortage under `on_shortage: error`; no sample at all, with what left the
// candidates out; pairs of an index without token counts where lengths must balance.
SampleList draw_samples(const DrawRequest& request, DrawReport& report);

SampleList draw_rows(const DrawRequest& request, DrawReport& report);
SampleList draw_pairs(const DrawRequest& request, DrawReport& report);
SampleList draw_length_balanced_pairs(const DrawRequest& request, DrawReport& report);

}  // namespace wmtp::data
