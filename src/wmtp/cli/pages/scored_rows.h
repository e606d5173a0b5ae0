// The lines of `score` as its page needs them: sums over all of them, and the few rows that are
// shown, in bounded memory.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace wmtp::cli::pages {

// A row as its line has it. Numbers are handed out by the token they belong to.
struct PageRow {
  std::uint64_t row = 0, part = 0;
  std::optional<std::uint64_t> micro_batch, rank;  // in a step
  std::uint64_t order = 0;                         // of the lines, from 0
  std::vector<std::int32_t> ids;
  using Numbers = std::vector<std::optional<float>>;  // one a token
  std::vector<Numbers> nll, weight;                   // by head, at the predicted token
  Numbers value;                                      // empty: none
  std::uint64_t num_targets = 0;                      // of head 1
  double nll_mean = 0;                                // of head 1
};

class ScoredRows {
 public:
  // Bins of losses are a quarter wide; the last one has all from kTop on.
  static constexpr double kBinWidth = 0.25, kTop = 20;
  struct Head {
    std::uint64_t num_targets = 0;
    double nll_sum = 0;
    std::vector<std::uint64_t> histogram;
  };
  struct Range {
    double low = 0, high = 0;
  };

  explicit ScoredRows(std::size_t max_rows) : max_rows_(max_rows) {}

  // Takes a line as `score` writes it; those of other types than "score" are left alone.
  void add(std::string_view line);

  std::uint64_t num_rows() const { return num_rows_; }
  const std::vector<Head>& heads() const { return heads_; }
  // At most max_rows: those with the highest mean loss of head 1, highest first, then earlier ones;
  // without losses the first ones.
  std::vector<const PageRow*> shown() const;

  std::optional<Range> weights() const { return weights_; }  // over all rows; none: no weights
  std::optional<Range> values() const { return values_; }
  bool weights_differ_by_head() const { return weights_differ_; }
  // Between these are the losses of 98 of 100 targets of all heads, up to a bin's width.
  Range common_nll() const;

 private:
  std::size_t bin_of_share(double share) const;  // the first below whose end so many targets are
  void count(const PageRow& row);
  void keep(PageRow row);

  std::size_t max_rows_;
  std::uint64_t num_rows_ = 0;
  std::vector<Head> heads_;
  std::vector<PageRow> kept_;  // a heap: its front is the first to go
  std::optional<Range> weights_, values_;
  bool weights_differ_ = false;
};

}  // namespace wmtp::cli::pages
