#include "wmtp/run/report/straggler_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "wmtp/core/printable.h"

namespace wmtp::run {
namespace {

std::string_view cause_of(const OwnTime& own, const OwnTime& fastest) {
  const double compute = own.compute_s - fastest.compute_s;
  const double data = own.data_s - fastest.data_s;
  const double comm = own.comm_s - fastest.comm_s;
  if (data >= compute && data >= comm) return "data";
  return comm > compute ? "communication" : "compute";
}

}  // namespace

std::vector<RankNumber> StragglerWatch::numbers_of(const std::optional<OwnTime>& own) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  return {{"compute", own ? own->compute_s : kNone},
          {"data", own ? own->data_s : kNone},
          {"comm", own ? own->comm_s : kNone}};
}

std::optional<RankSpeeds> StragglerWatch::compare(std::int64_t step,
                                                  const std::vector<std::vector<double>>& rows) {
  std::vector<std::pair<int, OwnTime>> ranks;
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    if (const std::vector<double>& row = rows[rank]; !std::isnan(row[0]))
      ranks.push_back({static_cast<int>(rank), {row[0], row[1], row[2]}});
  if (ranks.size() < 2) return std::nullopt;
  std::stable_sort(ranks.begin(), ranks.end(), [](const auto& one, const auto& other) {
    return one.second.sum_s() > other.second.sum_s();
  });
  const auto& [fastest_rank, fastest] = ranks.back();
  const double fastest_s = std::max(fastest.sum_s(), 1e-9);
  RankSpeeds speeds{
      fastest_s / std::max(ranks.front().second.sum_s(), 1e-9), fastest_rank, fastest_s, {}};
  for (const auto& [rank, own] : ranks) {
    const double own_s = own.sum_s();
    if (fastest_s >= kSlow * own_s || own_s - fastest_s < kLeast_s) break;
    const auto told = told_at_.find(rank);
    if (told != told_at_.end() && step - told->second < kSilence) continue;
    told_at_[rank] = step;
    speeds.stragglers.push_back(
        {rank, hosts_.at(static_cast<std::size_t>(rank)), own_s, cause_of(own, fastest)});
  }
  return speeds;
}

std::vector<std::string> rank_hosts(comm::ProcessGroupSession& session) {
  if (session.world() == 1) return {""};
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  std::string mine = name.data();
  if (session.launch().nodes > 1) mine += fmt::format(" (node {})", session.launch().node);
  std::vector<std::string> hosts;
  for (const std::string& host :
       session.gather_group().gather_bytes(mine, comm::Communicator::kAllRanks, "host names"))
    hosts.push_back(printable(host));
  return hosts;
}

}  // namespace wmtp::run
