// How many samples each difficulty bin gives.
//   Q(n, bins): drop bins without candidates or with weight <= 0; divide the weights by their sum;
//   q_i = floor(n*w_i + 1e-9); what is left goes one each, round and round, to the bins by
//   candidate count (largest first, ties in file order), skipping full ones.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/data/options.h"

namespace wmtp::data {

struct BinQuota {
  std::string name;
  double weight = 0;
  std::uint64_t num_candidates = 0;
  std::uint64_t quota = 0;  // what the rule asks for; above num_candidates = a shortage
};

// Fills `quota` of every bin. The sum falls short of `n` only where every bin is full.
void assign_quotas(std::uint64_t n, std::span<BinQuota> bins);

// What was asked for: how many, of what, by which key.
struct Wanted {
  std::uint64_t count = 0;
  std::string_view unit = "rows";  // or "pairs"
  std::string_view key = "data_sampling.n_samples";
};

// Refuses or caps shortages: `error` throws ErrorKind::data naming bin, wanted, available and the
// key; `cap` cuts quotas to the candidates and logs. Where no bin has a candidate it leaves it to
// the caller to say why.
void settle_shortages(const Wanted& wanted, std::span<BinQuota> bins, OnShortage on_shortage);

// The bins of a run, in file order; one bin `all` where none are given.
class Bins {
 public:
  explicit Bins(const std::vector<config::DifficultyBin>& bins) : bins_(bins) {}
  std::size_t size() const { return bins_.empty() ? 1 : bins_.size(); }
  std::string name(std::size_t bin) const { return bins_.empty() ? "all" : bins_[bin].name; }
  // First match wins; none: the sample is excluded.
  std::optional<std::size_t> bin_of(std::int16_t difficulty) const;
  // The bins with their weights: the given ones (a bin left out has weight 0), or, without any,
  // the candidate counts.
  std::vector<BinQuota> quotas(const config::DifficultyWeights& weights,
                               std::span<const std::uint64_t> num_candidates) const;

 private:
  const std::vector<config::DifficultyBin>& bins_;
};

}  // namespace wmtp::data
