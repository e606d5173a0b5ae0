#include "wmtp/cli/pages/scored_rows.h"

#include <algorithm>
#include <cmath>

#include "wmtp/core/json.h"

namespace wmtp::cli::pages {
namespace {

constexpr auto kNumBins = static_cast<std::size_t>(ScoredRows::kTop / ScoredRows::kBinWidth) + 1;

// [head][i] of the prediction of ids[i + head + 1] becomes [head][token].
std::vector<PageRow::Numbers> by_token(const Json& heads, std::size_t num_tokens) {
  std::vector<PageRow::Numbers> out;
  for (std::size_t head = 0; head < heads.size(); ++head) {
    PageRow::Numbers& numbers = out.emplace_back(num_tokens);
    for (std::size_t i = 0; i + head + 1 < num_tokens && i < heads[head].size(); ++i)
      if (!heads[head][i].is_null()) numbers[i + head + 1] = heads[head][i].get<float>();
  }
  return out;
}

void include(std::optional<ScoredRows::Range>& range, double number) {
  if (!range) range = {number, number};
  range->low = std::min(range->low, number);
  range->high = std::max(range->high, number);
}

PageRow parsed(const Json& line) {
  PageRow row;
  row.row = line.at("row");
  row.part = line.value("part", std::uint64_t{0});
  if (line.contains("micro_batch")) row.micro_batch = line.at("micro_batch");
  if (line.contains("rank")) row.rank = line.at("rank");
  row.ids = line.at("ids").get<std::vector<std::int32_t>>();
  row.nll = by_token(line.at("nll"), row.ids.size());
  if (line.contains("weight")) row.weight = by_token(line.at("weight"), row.ids.size());
  if (line.contains("value"))
    for (const Json& value : line.at("value")) row.value.emplace_back(value.get<float>());
  return row;
}

// Whether `left` is to be shown before `right`.
bool comes_before(const PageRow& left, const PageRow& right) {
  const bool scored = left.num_targets > 0, other = right.num_targets > 0;
  if (scored != other) return scored;
  if (left.nll_mean != right.nll_mean) return left.nll_mean > right.nll_mean;
  return left.order < right.order;
}

}  // namespace

void ScoredRows::add(std::string_view text) {
  const Json line = Json::parse(text);
  if (line.at("type") != "score") return;
  PageRow row = parsed(line);
  row.order = num_rows_++;
  if (!row.nll.empty())
    for (const auto& nll : row.nll.front())
      if (nll) row.nll_mean += static_cast<double>(*nll), ++row.num_targets;
  if (row.num_targets > 0) row.nll_mean /= static_cast<double>(row.num_targets);
  count(row);
  keep(std::move(row));
}

void ScoredRows::count(const PageRow& row) {
  heads_.resize(std::max(heads_.size(), row.nll.size()));
  for (std::size_t head = 0; head < row.nll.size(); ++head) {
    heads_[head].histogram.resize(kNumBins);
    for (const auto& nll : row.nll[head]) {
      if (!nll) continue;
      ++heads_[head].num_targets;
      heads_[head].nll_sum += static_cast<double>(*nll);
      const double bin =
          std::clamp(static_cast<double>(*nll) / kBinWidth, 0.0, static_cast<double>(kNumBins - 1));
      ++heads_[head].histogram[static_cast<std::size_t>(bin)];
    }
  }
  for (const PageRow::Numbers& numbers : row.weight)
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (!numbers[i]) continue;
      include(weights_, static_cast<double>(*numbers[i]));
      weights_differ_ = weights_differ_ || (row.weight[0][i] && *row.weight[0][i] != *numbers[i]);
    }
  for (const auto& value : row.value) include(values_, static_cast<double>(*value));
}

void ScoredRows::keep(PageRow row) {
  kept_.push_back(std::move(row));
  std::push_heap(kept_.begin(), kept_.end(), comes_before);
  if (kept_.size() <= max_rows_) return;
  std::pop_heap(kept_.begin(), kept_.end(), comes_before);
  kept_.pop_back();
}

std::vector<const PageRow*> ScoredRows::shown() const {
  std::vector<const PageRow*> rows;
  for (const PageRow& row : kept_) rows.push_back(&row);
  std::sort(rows.begin(), rows.end(),
            [](const PageRow* a, const PageRow* b) { return comes_before(*a, *b); });
  return rows;
}

std::size_t ScoredRows::bin_of_share(double share) const {
  std::uint64_t whole = 0, below = 0;
  for (const Head& head : heads_) whole += head.num_targets;
  for (std::size_t bin = 0; bin < kNumBins; ++bin) {
    for (const Head& head : heads_) below += head.histogram[bin];
    if (static_cast<double>(below) >= share * static_cast<double>(whole)) return bin;
  }
  return kNumBins - 1;
}

ScoredRows::Range ScoredRows::common_nll() const {
  return {static_cast<double>(bin_of_share(0.01)) * kBinWidth,
          static_cast<double>(bin_of_share(0.99) + 1) * kBinWidth};
}

}  // namespace wmtp::cli::pages
