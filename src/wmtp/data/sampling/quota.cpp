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

void settle_shortages(const Wanted& wanted, std::span<BinQuota> bins, OnShortage on_shortage) {
  const auto shortage = [&](const std::string& fact, std::string_view other, std::uint64_t taken) {
    if (on_shortage == OnShortage::error)
      throw Error(
          ErrorKind::data, "data", fmt::format("{} ({})", fact, wanted.key),
          fmt::format("lower {}{} or set data_sampling.on_shortage: cap", wanted.key, other));
    log::warn("data", "{}; taking {}", fact, taken);
  };
  std::uint64_t total = 0, available = 0;
  for (const BinQuota& bin : bins) available += bin.weight > 0 ? bin.num_candidates : 0;
  if (available == 0) return;
  for (BinQuota& bin : bins) {
    if (bin.quota > bin.num_candidates) {
      const std::string place =
          bins.size() > 1 ? fmt::format("bin \"{}\" is short: ", bin.name) : "";
      shortage(fmt::format("{}{} {} wanted, {} available", place, bin.quota, wanted.unit,
                           bin.num_candidates),
               bins.size() > 1 ? ", change the weights of the bins" : "", bin.num_candidates);
      bin.quota = bin.num_candidates;
    }
    total += bin.quota;
  }
  if (total >= wanted.count) return;
  const std::string fact =
      fmt::format("{} {} wanted, {} available", wanted.count, wanted.unit, available);
  if (available < wanted.count)
    shortage(fact, "", total);
  else
    log::warn("data", "{}; taking {}", fact, total);
}

}  // namespace wmtp::data
