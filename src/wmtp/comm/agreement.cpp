#include "wmtp/comm/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "wmtp/core/error.h"
#include "wmtp/core/failpoint.h"
#include "wmtp/core/json.h"
#include "wmtp/core/time.h"

namespace wmtp::comm {
namespace {

using Table = std::map<std::string, std::string>;
constexpr const char* kNotSet = "(not set)";

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

// The value most ranks have; of equally common ones that of the lowest rank.
std::string majority(const std::vector<std::pair<std::string, std::vector<int>>>& values) {
  const auto more = [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); };
  return std::max_element(values.begin(), values.end(), more)->first;
}

void compare_key(const std::string& key, const std::vector<Table>& by_rank,
                 std::vector<std::string>& lines) {
  std::vector<std::pair<std::string, std::vector<int>>> values;  // in order of the lowest rank
  for (std::size_t r = 0; r < by_rank.size(); ++r) {
    const auto found = by_rank[r].find(key);
    const std::string value = found == by_rank[r].end() ? kNotSet : found->second;
    const auto same = std::find_if(values.begin(), values.end(),
                                   [&](const auto& entry) { return entry.first == value; });
    if (same == values.end())
      values.push_back({value, {static_cast<int>(r)}});
    else
      same->second.push_back(static_cast<int>(r));
  }
  if (values.size() == 1) return;
  const std::string common = majority(values);
  for (const auto& [value, ranks] : values)
    if (value != common)
      lines.push_back(fmt::format("{}: {} {}, others {}", ranks_text(ranks), key, value, common));
}

std::string encode(const Facts& facts) {
  Json json{{"must", facts.must_agree}, {"config", facts.config}, {"should", facts.should_agree}};
  if (facts.clock_s) json["clock"] = *facts.clock_s;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Table table_of(const Json& json, const char* part, int rank) {
  Table table;
  if (json.contains(part) && json[part].is_object())
    for (const auto& [key, value] : json[part].items()) {
      if (!value.is_string())
        throw Error(ErrorKind::data, "comm",
                    fmt::format("rank {} posted a malformed fact '{}'", rank, key));
      table[key] = value.get<std::string>();
    }
  return table;
}

struct Collected {
  std::vector<Table> must, config, should;
  std::vector<std::optional<double>> clocks;
};

std::optional<double> clock_of(const Json& json) {
  const auto clock = json.find("clock");
  if (clock == json.end() || !clock->is_number()) return std::nullopt;
  return clock->get<double>();
}

// REQUIRES rank 0. Waits for all posts; a missing rank is named.
Collected collect(const Store& store, const AgreementOptions& options) {
  const auto deadline = Clock::now() + options.timeout;
  Collected all;
  for (int r = 0; r < options.world; ++r) {
    const auto left =
        std::max(std::chrono::milliseconds(1),
                 std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()));
    std::string text;
    try {
      text = store.get(fmt::format("facts/{}", r), left);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::comm) throw;
      throw Error(
          ErrorKind::comm, "comm",
          fmt::format("rank {} did not join the agreement '{}' within {:.0f} s", r, options.scope,
                      std::chrono::duration<double>(options.timeout).count()),
          error.fact());
    }
    const Json json = parse_json(text, fmt::format("facts of rank {}", r));
    all.must.push_back(table_of(json, "must", r));
    all.config.push_back(table_of(json, "config", r));
    all.should.push_back(table_of(json, "should", r));
    all.clocks.push_back(clock_of(json));
  }
  return all;
}

Json judge(const Store& store, const AgreementOptions& options) {
  const Collected all = collect(store, options);
  std::vector<std::string> lines = differences(all.must, options.max_lines);
  for (std::string& line : differences(all.config, options.max_lines))
    lines.push_back(std::move(line));
  if (lines.size() > options.max_lines) lines.resize(options.max_lines);
  std::vector<std::string> warnings = differences(all.should, options.max_lines);
  for (std::string& line : clock_differences(all.clocks))
    if (warnings.size() < options.max_lines) warnings.push_back(std::move(line));
  return Json{{"differences", lines}, {"warnings", warnings}};
}

}  // namespace

std::vector<std::string> differences(const std::vector<Table>& by_rank, std::size_t max_lines) {
  std::set<std::string> keys;
  for (const Table& table : by_rank)
    for (const auto& [key, value] : table) keys.insert(key);
  std::vector<std::string> lines;
  for (const std::string& key : keys) {
    if (lines.size() >= max_lines) break;
    compare_key(key, by_rank, lines);
  }
  if (lines.size() > max_lines) lines.resize(max_lines);
  return lines;
}

std::vector<std::string> clock_differences(const std::vector<std::optional<double>>& by_rank) {
  std::vector<std::string> lines;
  for (std::size_t r = 1; r < by_rank.size(); ++r) {
    if (!by_rank[0] || !by_rank[r]) continue;
    const double ahead = *by_rank[r] - *by_rank[0];
    if (std::abs(ahead) > kClockSkew_s)
      lines.push_back(fmt::format("rank {}: its clock is {:.1f} s {} rank 0's", r, std::abs(ahead),
                                  ahead > 0 ? "ahead of" : "behind"));
  }
  return lines;
}

std::vector<std::string> agree(const Store& run_store, const Facts& mine,
                               const AgreementOptions& options) {
  if (options.world == 1) return {};
  if (failpoint::pass("comm.agree.post") == failpoint::Action::skip) return {};
  const Store store = run_store.prefixed("agree/" + options.scope);
  store.set(fmt::format("facts/{}", options.rank), encode(mine));
  if (options.rank == 0) {
    try {
      store.set("verdict", judge(store, options).dump());
    } catch (const Error& error) {  // the others must not wait for a verdict that will not come
      store.set("verdict", Json{{"error", error.what()}}.dump());
      throw;
    }
  }
  // A little longer than rank 0 waits, so that it is rank 0 that names the missing one.
  const std::string text = store.get("verdict", options.timeout + std::chrono::seconds(2));
  const Json verdict = parse_json(text, "the verdict of rank 0");
  if (verdict.contains("error"))
    throw Error(ErrorKind::comm, "comm", "rank 0: " + verdict["error"].get<std::string>());
  const auto lines = verdict.at("differences").get<std::vector<std::string>>();
  if (!lines.empty())
    throw Error(ErrorKind::config, "comm",
                fmt::format("ranks disagree: {}", fmt::join(lines, "; ")),
                "start all ranks with the same program, configuration and data");
  return verdict.at("warnings").get<std::vector<std::string>>();
}

}  // namespace wmtp::comm
