// Rows, per difficulty bin and class.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/data/sampling/draw.h"
#include "wmtp/data/sampling/quota.h"
#include "wmtp/data/sampling/sample_list.h"

namespace wmtp::data {
namespace {

// Balancing with a ratio of 1 or 0 means one class only: the other is no candidate.
bool is_wanted(const DrawRequest& request, bool correct) {
  const SamplingOptions& options = request.options;
  if (!options.balance_correct) return true;
  if (options.correct_ratio >= 1) return correct;
  if (options.correct_ratio <= 0) return !correct;
  return true;
}

// The largest set of a bin in which correct and incorrect rows stand in the ratio asked for. With a
// ratio of 1 or 0 the other class is no candidate, so the set is the whole bin.
std::uint64_t largest_balanced(const DrawRequest& request, std::span<const std::uint32_t> rows) {
  const double ratio = request.options.correct_ratio;
  if (ratio >= 1 || ratio <= 0) return rows.size();
  const auto num_correct = static_cast<double>(std::count_if(
      rows.begin(), rows.end(), [&](std::uint32_t row) { return request.table.is_correct(row); }));
  const double num_incorrect = static_cast<double>(rows.size()) - num_correct;
  const double size = std::min(num_correct / ratio, num_incorrect / (1 - ratio));
  return static_cast<std::uint64_t>(std::floor(size + 1e-9));
}

std::vector<std::uint32_t> draw_bin(const DrawRequest& request, const BinQuota& bin,
                                    std::vector<std::uint32_t> rows, DrawReport& report) {
  const std::string name = "rows/" + bin.name;
  if (!request.options.balance_correct)
    return take(std::move(rows), bin.quota, request, name, report);
  const auto split = std::stable_partition(
      rows.begin(), rows.end(), [&](std::uint32_t row) { return request.table.is_correct(row); });
  std::vector<std::uint32_t> correct(rows.begin(), split), incorrect(split, rows.end());
  const double share = static_cast<double>(bin.quota) * request.options.correct_ratio;
  const auto wanted = static_cast<std::uint64_t>(std::floor(share + 1e-9));
  std::uint64_t num_correct = std::min<std::uint64_t>(wanted, correct.size());
  const std::uint64_t num_incorrect =
      std::min<std::uint64_t>(bin.quota - num_correct, incorrect.size());
  num_correct = bin.quota - num_incorrect;
  if (num_correct != wanted) {
    const std::uint64_t moved = num_correct > wanted ? num_correct - wanted : wanted - num_correct;
    report.num_topped_up += moved;
    log::warn("data",
              "bin \"{}\": {} correct and {} incorrect rows wanted, {} and {} taken (ratio {:.3f})",
              bin.name, wanted, bin.quota - wanted, num_correct, num_incorrect,
              static_cast<double>(num_correct) /
                  static_cast<double>(std::max<std::uint64_t>(1, bin.quota)));
  }
  std::vector<std::uint32_t> out =
      take(std::move(correct), num_correct, request, name + "/correct", report);
  const auto rest = take(std::move(incorrect), num_incorrect, request, name + "/incorrect", report);
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

}  // namespace

SampleList draw_rows(const DrawRequest& request, DrawReport& report) {
  const Bins bins(request.options.difficulty_bins);
  std::vector<std::vector<std::uint32_t>> rows(bins.size());
  for (std::uint32_t row = 0; row < request.table.num_rows(); ++row) {
    if (!request.table.is_candidate(row)) continue;
    ++report.num_candidates;
    const auto bin = bins.bin_of(request.table.difficulty(row));
    if (!bin)
      ++report.num_without_bin;
    else if (is_wanted(request, request.table.is_correct(row)))
      rows[*bin].push_back(row);
    else
      ++report.num_of_other_class;
  }
  std::vector<std::uint64_t> counts;
  for (const auto& list : rows) counts.push_back(list.size());
  std::vector<BinQuota> quotas = bins.quotas(request.weights, counts);
  if (request.all) {
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (quotas[i].weight > 0)
        quotas[i].quota = request.options.balance_correct ? largest_balanced(request, rows[i])
                                                          : quotas[i].num_candidates;
  } else {
    assign_quotas(request.num_samples, quotas);
    settle_shortages(request.wanted(), quotas, request.options.on_shortage);
  }
  SampleList list;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto drawn = draw_bin(request, quotas[i], std::move(rows[i]), report);
    BinReport bin{quotas[i].name, quotas[i].num_candidates, quotas[i].quota, 0, 0};
    for (std::uint32_t row : drawn)
      ++(request.table.is_correct(row) ? bin.num_correct : bin.num_incorrect);
    report.bins.push_back(bin);
    list.rows.insert(list.rows.end(), drawn.begin(), drawn.end());
  }
  mark_used(request, list.rows);
  if (request.options.shuffle)
    RngStream(static_cast<std::uint64_t>(request.options.seed), request.prefix + "rows")
        .shuffle(std::span(list.rows));
  else
    std::sort(list.rows.begin(), list.rows.end());
  return list;
}

namespace {

// Says what left the candidates out, and how to let in those of the largest part.
[[noreturn]] void refuse_empty(const DrawRequest& request, const DrawReport& report) {
  const bool pairs = request.options.use_pairwise;
  std::string fact =
      fmt::format("no {}: {} candidate rows", pairs ? "pairs" : "samples", report.num_candidates);
  std::string hint = "see: wmtp data inspect --config C --dropped";
  if (report.num_candidates == 0) {
    fact += fmt::format(" of {}, none has a target within dataset.max_length",
                        request.table.num_rows());
    hint = "raise dataset.max_length; their lengths: wmtp data inspect --config C --dropped";
  }
  std::uint64_t most = 0;
  const auto cause = [&](std::uint64_t count, const std::string& text, const std::string& remedy) {
    if (count == 0) return;
    fact += ", " + text;
    if (count > most) hint = remedy, most = count;
  };
  cause(report.num_without_problem,
        fmt::format("{} of them without task_id", report.num_without_problem),
        "give the rows of one problem the same task_id (or metadata.problem_id), or set "
        "data_sampling.use_pairwise: false");
  cause(report.num_one_sided,
        fmt::format("{} of {} problems with right or wrong rows only", report.num_one_sided,
                    report.num_problems),
        "a pair is a right and a wrong row (is_correct) of one task_id; or set "
        "data_sampling.use_pairwise: false");
  cause(report.num_without_bin,
        fmt::format("{} of them in no difficulty bin", report.num_without_bin),
        "the bins of data_sampling.difficulty_bins hold no metadata.difficulty of these rows");
  cause(report.num_below_length_bins,
        fmt::format("{} of them shorter than the first length bin", report.num_below_length_bins),
        "lower the first edge of data_sampling.length_bins");
  cause(report.num_of_other_class,
        fmt::format("{} not of the class that data_sampling.correct_ratio {} asks for",
                    report.num_of_other_class, request.options.correct_ratio),
        "change data_sampling.correct_ratio, or set data_sampling.balance_correct: false");
  std::uint64_t without_weight = 0, in_bins = 0;
  for (const BinReport& bin : report.bins) {
    const auto given = request.weights.find(bin.name);
    const bool weighed =
        request.weights.empty() || (given != request.weights.end() && given->second > 0);
    (weighed ? in_bins : without_weight) += bin.num_candidates;
  }
  cause(without_weight, fmt::format("{} of them in bins without a weight", without_weight),
        "give their bins a weight in data_sampling.difficulty_weights");
  cause(in_bins, fmt::format("{} of them in bins with right or wrong rows only", in_bins),
        fmt::format("data_sampling.correct_ratio {} needs both; or set "
                    "data_sampling.balance_correct: false",
                    request.options.correct_ratio));
  const std::uint64_t both = report.num_problems - report.num_one_sided;
  if (request.options.use_length_balanced && report.num_without_bin == 0)
    cause(both, fmt::format("{} problems without a right and a wrong row of one length bin", both),
          "widen data_sampling.length_bins, or set data_sampling.use_length_balanced: false");
  throw Error(ErrorKind::data, "data", fact, hint);
}

}  // namespace

SampleList draw_samples(const DrawRequest& request, DrawReport& report) {
  SampleList list = !request.options.use_pairwise ? draw_rows(request, report)
                    : request.options.use_length_balanced
                        ? draw_length_balanced_pairs(request, report)
                        : draw_pairs(request, report);
  if (list.size() == 0) refuse_empty(request, report);
  return list;
}

Sha256Digest SampleList::digest() const {
  Sha256 hash;
  if (!paired) {
    hash.update(std::as_bytes(std::span(rows)));
    return hash.finish();
  }
  for (const RowPair& pair : pairs) {
    const std::uint32_t ids[2] = {pair.positive, pair.negative};
    hash.update(std::as_bytes(std::span(ids)));
  }
  return hash.finish();
}

}  // namespace wmtp::data
