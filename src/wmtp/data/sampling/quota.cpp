#include "wmtp/data/sampling/quota.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/data/index/row_index.h"

namespace wmtp::data {

std::optional<std::size_t> Bins::bin_of(std::int16_t difficulty) const {
  if (bins_.empty()) return 0;
  if (difficulty == kNoDifficulty) return std::nullopt;
  for (std::size_t i = 0; i < bins_.size(); ++i)
    if (difficulty >= bins_[i].lo && difficulty <= bins_[i].hi) return i;
  return std::nullopt;
}

std::vector<BinQuota> Bins::quotas(const config::DifficultyWeights& weights,
                                   std::span<const std::uint64_t> num_candidates) const {
  std::vector<BinQuota> out(size());
  for (std::size_t i = 0; i < size(); ++i) {
    out[i].name = name(i);
    out[i].num_candidates = num_candidates[i];
    const auto given = weights.find(out[i].name);
    out[i].weight = weights.empty()          ? static_cast<double>(num_candidates[i])
                    : given == weights.end() ? 0.0
                                             : given->second;
  }
  return out;
}

void assign_quotas(std::uint64_t n, std::span<BinQuota> bins) {
  std::vector<BinQuota*> active;
  double sum = 0;
  for (BinQuota& bin : bins) {
    bin.quota = 0;
    if (bin.num_candidates == 0 || !(bin.weight > 0)) continue;
    active.push_back(&bin);
    sum += bin.weight;
  }
  std::uint64_t given = 0;
  for (BinQuota* bin : active) {
    const double share = static_cast<double>(n) * (bin->weight / sum);
    bin->quota = static_cast<std::uint64_t>(std::floor(share + 1e-9));
    given += bin->quota;
  }
  std::stable_sort(active.begin(), active.end(), [](const BinQuota* a, const BinQuota* b) {
    return a->num_candidates > b->num_candidates;
  });
  for (bool moved = true; given < n && moved;) {
    moved = false;
    for (BinQuota* bin : active) {
      if (given >= n || bin->quota >= bin->num_candidates) continue;
      ++bin->quota, ++given;
      moved = true;
    }
  }
}

void settle_shortages(std::uint64_t n, std::span<BinQuota> bins, OnShortage on_shortage) {
  std::uint64_t total = 0, available = 0;
  for (BinQuota& bin : bins) {
    available += bin.weight > 0 ? bin.num_candidates : 0;
    if (bin.quota > bin.num_candidates) {
      const std::string fact = fmt::format("bin \"{}\" is short: {} samples wanted, {} available",
                                           bin.name, bin.quota, bin.num_candidates);
      if (on_shortage == OnShortage::error)
        throw Error(ErrorKind::data, "data", fact,
                    "lower data_sampling.n_samples, change the weights, or set "
                    "data_sampling.on_shortage: cap");
      log::warn("data", "{}; taking {}", fact, bin.num_candidates);
      bin.quota = bin.num_candidates;
    }
    total += bin.quota;
  }
  if (total >= n) return;
  const std::string fact = fmt::format("{} samples wanted, {} available", n, available);
  if (on_shortage == OnShortage::error && available < n)
    throw Error(ErrorKind::data, "data", fact,
                "lower data_sampling.n_samples or set data_sampling.on_shortage: cap");
  log::warn("data", "{}; taking {}", fact, total);
}

}  // namespace wmtp::data
