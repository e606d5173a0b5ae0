#include "wmtp/run/plan/sizing/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "wmtp/config/tables/schema.h"
#include "wmtp/config/yaml/problems.h"
#include "wmtp/core/suggest.h"

namespace wmtp::run {
namespace {

constexpr std::size_t kMostCombinations = 4096;
constexpr int kMostRanks = 1 << 20;
constexpr std::string_view kWorldSize = "world_size";

struct ShortName {
  std::string_view name, key;
};
constexpr ShortName kShortNames[] = {{"batch_size", "training.batch_size"},
                                     {"recompute", "distributed.fsdp.activation_checkpointing"},
                                     {"precision", "distributed.fsdp.param_dtype"},
                                     {"strategy", "distributed.fsdp.sharding_strategy"},
                                     {"max_length", "dataset.max_length"},
                                     {"use_lora", "training.use_lora"},
                                     {kWorldSize, ""}};

[[noreturn]] void refuse_sweep(std::string_view text, const std::string& fact,
                               const std::string& hint) {
  throw Error(ErrorKind::config, "plan", fmt::format("--sweep {}: {}", text, fact), hint);
}

std::vector<std::string> split_values(std::string_view text) {
  std::vector<std::string> values{""};
  int depth = 0;
  for (const char c : text) {
    depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    if (c == ',' && depth == 0)
      values.emplace_back();
    else
      values.back() += c;
  }
  return values;
}

std::string swept_key(std::string_view name, std::string_view text) {
  for (const ShortName& one : kShortNames)
    if (one.name == name) return std::string(one.key);
  if (config::schema().find(name)) return std::string(name);
  std::vector<std::string> names = sweep_names();
  const std::size_t num_short = names.size();
  for (const config::Row& row : config::schema().rows()) names.push_back(row.key);
  const auto guess = nearest(name, names, 3);
  names.resize(num_short);
  refuse_sweep(
      text, fmt::format("there is no key {}", name),
      guess ? fmt::format("did you mean {}?", *guess)
            : fmt::format("name a key of `wmtp validate --docs`, or {}", fmt::join(names, ", ")));
}

std::optional<int> ranks_of(const std::string& value) {
  int ranks = 0;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, ranks);
  if (error != std::errc() || stop != end || ranks < 1 || ranks > kMostRanks) return std::nullopt;
  return ranks;
}

Candidate combination(const Candidate& base, const std::vector<SweepAxis>& axes,
                      const std::vector<std::string>& values) {
  Candidate candidate = base;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].key.empty())
      candidate.world = *ranks_of(values[a]);
    else
      candidate.overrides.push_back(fmt::format("{}={}", axes[a].key, values[a]));
  }
  return candidate;
}

std::string in_one_line(const Error& error) {
  const auto* several = dynamic_cast<const config::ConfigError*>(&error);
  return several ? several->problems().front().text : error.fact();
}

SweptRun swept(RunSizer& sizer, const Candidate& candidate, std::vector<std::string> values) {
  SweptRun result{std::move(values), {}, {}};
  try {
    result.run = sizer.size(candidate);
    if (result.run->fits()) sizer.add_speed(*result.run);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::config) throw;
    result.run.reset();
    result.refused = in_one_line(error);
  }
  return result;
}

bool goes_before(const SweptRun& a, const SweptRun& b) {
  if (a.run.has_value() != b.run.has_value()) return a.run.has_value();
  if (!a.run) return false;
  if (a.fits() != b.fits()) return a.fits();
  if (a.fits() && a.run->speed->tokens_per_s != b.run->speed->tokens_per_s)
    return a.run->speed->tokens_per_s > b.run->speed->tokens_per_s;
  return a.run->needed_bytes() < b.run->needed_bytes();
}

// The next combination, the last axis fastest; false after the last.
bool next_combination(std::vector<std::size_t>& places, const std::vector<SweepAxis>& axes) {
  for (std::size_t a = axes.size(); a-- > 0;) {
    if (++places[a] < axes[a].values.size()) return true;
    places[a] = 0;
  }
  return false;
}

}  // namespace

std::vector<std::string> sweep_names() {
  std::vector<std::string> names;
  for (const ShortName& one : kShortNames) names.emplace_back(one.name);
  return names;
}

SweepAxis parse_axis(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == text.npos || equals + 1 == text.size())
    refuse_sweep(text, "has no values", "write KEY=a,b,c, as in --sweep batch_size=1,2,4");
  SweepAxis axis;
  axis.name = text.substr(0, equals);
  axis.key = swept_key(axis.name, text);
  axis.values = split_values(text.substr(equals + 1));
  for (const std::string& value : axis.values) {
    if (value.empty()) refuse_sweep(text, "one of its values is empty", "write KEY=a,b,c");
    if (axis.key.empty() && !ranks_of(value))
      refuse_sweep(text, fmt::format("{} is no number of ranks", value), "give whole numbers >= 1");
  }
  return axis;
}

std::vector<SweptRun> sweep(RunSizer& sizer, const Candidate& base,
                            const std::vector<SweepAxis>& axes) {
  std::size_t count = 1;
  for (const SweepAxis& axis : axes)
    count = std::min(count * axis.values.size(), std::size_t{1} << 40);
  if (count > kMostCombinations)
    throw Error(ErrorKind::config, "plan",
                fmt::format("--sweep: {} combinations, the limit is {}", count, kMostCombinations),
                "give fewer values");
  std::vector<SweptRun> results;
  std::vector<std::size_t> places(axes.size(), 0);
  do {
    std::vector<std::string> values;
    for (std::size_t a = 0; a < axes.size(); ++a) values.push_back(axes[a].values[places[a]]);
    const Candidate candidate = combination(base, axes, values);
    results.push_back(swept(sizer, candidate, std::move(values)));
  } while (next_combination(places, axes));
  std::ranges::stable_sort(results, goes_before);
  if (!results.front().run)
    throw Error(ErrorKind::config, "plan",
                fmt::format("--sweep: none of {} combinations is allowed: {}", results.size(),
                            results.front().refused),
                "see `wmtp validate --docs` for what each key takes");
  return results;
}

}  // namespace wmtp::run
