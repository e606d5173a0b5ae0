// Pairs of a correct and an incorrect row of one problem; no row occurs twice.
#include <algorithm>
#include <string>

#include "wmtp/core/error.h"
#include "wmtp/data/sampling/draw.h"
#include "wmtp/data/sampling/quota.h"
#include "wmtp/data/sampling/sample_list.h"

namespace wmtp::data {
namespace {

struct GradedProblem {
  std::int16_t difficulty = kNoDifficulty;  // of its first row that has one
  std::vector<std::uint32_t> correct, incorrect;
};

std::vector<GradedProblem> group(const DrawRequest& request, DrawReport& report) {
  const RowTable& table = request.table;
  std::vector<GradedProblem> problems(table.num_problems());
  for (std::uint32_t row = 0; row < table.num_rows(); ++row) {
    const std::uint32_t number = table.problem(row);
    if (number != kNoProblem && problems[number].difficulty == kNoDifficulty)
      problems[number].difficulty = table.difficulty(row);
    if (!table.is_candidate(row)) continue;
    ++report.num_candidates;
    if (number == kNoProblem) {
      ++report.num_without_problem;
      continue;
    }
    (table.is_correct(row) ? problems[number].correct : problems[number].incorrect).push_back(row);
  }
  for (const GradedProblem& problem : problems) {
    if (problem.correct.empty() && problem.incorrect.empty()) continue;
    ++report.num_problems;
    report.num_one_sided += problem.correct.empty() || problem.incorrect.empty() ? 1 : 0;
  }
  return problems;
}

class PairMaker {
 public:
  explicit PairMaker(const DrawRequest& request)
      : request_(request), prefix_(request.pair_prefix.value_or(request.prefix)) {}

  template <class Item>
  void shuffle(std::vector<Item>& items, const std::string& name) const {
    if (!request_.options.shuffle) return;
    RngStream(static_cast<std::uint64_t>(request_.options.seed), prefix_ + name)
        .shuffle(std::span(items));
  }

  // Shuffles both classes on "<name>/correct/<key>" and "<name>/incorrect/<key>" and zips them.
  std::vector<RowPair> zip(std::vector<std::uint32_t> correct, std::vector<std::uint32_t> incorrect,
                           const std::string& name, const std::string& key,
                           std::int16_t length_bin) const {
    shuffle(correct, name + "/correct/" + key);
    shuffle(incorrect, name + "/incorrect/" + key);
    std::vector<RowPair> pairs;
    for (std::size_t i = 0; i < std::min(correct.size(), incorrect.size()); ++i)
      pairs.push_back({correct[i], incorrect[i], length_bin});
    return pairs;
  }

  void limit(std::vector<RowPair>& pairs) const {
    if (const auto most = request_.options.max_pairs_per_problem)
      pairs.resize(std::min<std::size_t>(pairs.size(), static_cast<std::size_t>(*most)));
  }

 private:
  const DrawRequest& request_;
  std::string prefix_;
};

SampleList finish(const DrawRequest& request, std::vector<RowPair> pairs, const std::string& name) {
  SampleList list;
  list.paired = true;
  list.pairs = std::move(pairs);
  mark_used(request, list.pairs);
  if (request.options.shuffle)
    RngStream(static_cast<std::uint64_t>(request.options.seed), request.prefix + name)
        .shuffle(std::span(list.pairs));
  else
    std::sort(list.pairs.begin(), list.pairs.end());
  return list;
}

}  // namespace

SampleList draw_pairs(const DrawRequest& request, DrawReport& report) {
  const Bins bins(request.options.difficulty_bins);
  const PairMaker maker(request);
  std::vector<std::vector<RowPair>> pairs(bins.size());
  const std::vector<GradedProblem> problems = group(request, report);
  for (std::uint32_t number = 0; number < problems.size(); ++number) {
    const GradedProblem& problem = problems[number];
    if (problem.correct.empty() || problem.incorrect.empty()) continue;
    const auto bin = bins.bin_of(problem.difficulty);
    if (!bin) {
      report.num_without_bin += problem.correct.size() + problem.incorrect.size();
      continue;
    }
    auto made = maker.zip(problem.correct, problem.incorrect, "pairs",
                          std::string(request.table.problem_name(number)), -1);
    maker.limit(made);
    pairs[*bin].insert(pairs[*bin].end(), made.begin(), made.end());
  }
  std::vector<std::uint64_t> counts;
  for (const auto& list : pairs) counts.push_back(list.size());
  std::vector<BinQuota> quotas = bins.quotas(request.weights, counts);
  if (request.all) {
    for (BinQuota& bin : quotas) bin.quota = bin.weight > 0 ? bin.num_candidates : 0;
  } else {
    assign_quotas(request.num_samples, quotas);
    settle_shortages(request.wanted(), quotas, request.options.on_shortage);
  }
  std::vector<RowPair> drawn;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto part =
        take(std::move(pairs[i]), quotas[i].quota, request, "pairs/bin/" + quotas[i].name, report);
    report.bins.push_back(
        {quotas[i].name, quotas[i].num_candidates, quotas[i].quota, part.size(), part.size()});
    drawn.insert(drawn.end(), part.begin(), part.end());
  }
  return finish(request, std::move(drawn), "pairs");
}

SampleList draw_length_balanced_pairs(const DrawRequest& request, DrawReport& report) {
  if (!request.table.has_token_counts())
    throw Error(ErrorKind::data, "data",
                "length-balanced pairs need token counts, which the index lacks",
                "build it again: wmtp data index --tokenizer PATH FILE");
  const Bins bins(request.options.difficulty_bins);
  const std::vector<std::int64_t>& edges = request.options.length_bins;
  const PairMaker maker(request);
  std::vector<RowPair> all;
  const std::vector<GradedProblem> problems = group(request, report);
  for (std::uint32_t number = 0; number < problems.size(); ++number) {
    const GradedProblem& problem = problems[number];
    if (problem.correct.empty() && problem.incorrect.empty()) continue;
    if (!bins.bin_of(problem.difficulty)) {
      report.num_without_bin += problem.correct.size() + problem.incorrect.size();
      continue;
    }
    std::vector<GradedProblem> by_length(edges.size());
    const auto sort_in = [&](const std::vector<std::uint32_t>& rows, auto field) {
      for (std::uint32_t row : rows) {
        const auto after = std::upper_bound(edges.begin(), edges.end(),
                                            std::int64_t{request.table.output_tokens(row)});
        if (after == edges.begin())
          ++report.num_below_length_bins;
        else
          (by_length[static_cast<std::size_t>(after - edges.begin()) - 1].*field).push_back(row);
      }
    };
    sort_in(problem.correct, &GradedProblem::correct);
    sort_in(problem.incorrect, &GradedProblem::incorrect);
    const std::string name(request.table.problem_name(number));
    std::vector<RowPair> made;
    for (std::size_t bin = 0; bin < by_length.size(); ++bin) {
      const auto part = maker.zip(by_length[bin].correct, by_length[bin].incorrect, "length_pairs",
                                  name + "/" + std::to_string(bin), static_cast<std::int16_t>(bin));
      made.insert(made.end(), part.begin(), part.end());
    }
    maker.shuffle(made, "length_pairs/problem/" + name);
    maker.limit(made);
    all.insert(all.end(), made.begin(), made.end());
  }
  std::vector<BinQuota> quota(1);
  quota[0] = {"all", 1.0, all.size(), request.all ? all.size() : request.num_samples};
  if (!request.all) settle_shortages(request.wanted(), quota, request.options.on_shortage);
  report.bins.push_back({"all", all.size(), quota[0].quota, quota[0].quota, quota[0].quota});
  all = take(std::move(all), quota[0].quota, request, "length_pairs/bin/all", report);
  return finish(request, std::move(all), "length_pairs");
}

}  // namespace wmtp::data
