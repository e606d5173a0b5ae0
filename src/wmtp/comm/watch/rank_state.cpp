#include "wmtp/comm/watch/rank_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "wmtp/core/json.h"
#include "wmtp/core/time.h"

namespace wmtp::comm {
namespace {

constexpr std::size_t kMaxWhatBytes = 80;

Json groups_json(const RankState& state) {
  Json groups = Json::object();
  for (const auto& [name, last] : state.groups)
    groups[name] = {{"number", last.number},
                    {"what", last.what.substr(0, kMaxWhatBytes)},
                    {"finished", last.finished}};
  return groups;
}

std::vector<int> silent_ranks(const HangFacts& facts) {
  std::vector<int> ranks;
  for (const auto& [rank, peer] : facts.peers)
    if (!peer.state || peer.silent_s > facts.silent_limit_s) ranks.push_back(rank);
  return ranks;
}

std::uint64_t progress_of(const PeerView& peer, const std::string& group) {
  const auto found = peer.state->groups.find(group);
  return found == peer.state->groups.end() ? 0 : found->second.number;
}

std::vector<int> slowest_ranks(const HangFacts& facts) {
  std::map<std::string, bool> groups;
  for (const auto& [rank, peer] : facts.peers)
    for (const auto& [name, last] : peer.state->groups) groups[name] = true;
  for (const auto& [name, unused] : groups) {
    std::uint64_t least = ~0ull, most = 0;
    for (const auto& [rank, peer] : facts.peers) {
      least = std::min(least, progress_of(peer, name));
      most = std::max(most, progress_of(peer, name));
    }
    if (least == most) continue;
    std::vector<int> ranks;
    for (const auto& [rank, peer] : facts.peers)
      if (progress_of(peer, name) == least) ranks.push_back(rank);
    return ranks;
  }
  return {};
}

std::string headline(const HangFacts& facts, const std::vector<int>& silent,
                     const std::vector<int>& behind) {
  const char* word = behind.size() == 1 ? "rank" : "ranks";
  if (!silent.empty()) {
    double longest = 0;
    for (const int rank : silent) longest = std::max(longest, facts.peers.at(rank).silent_s);
    return fmt::format("{}; no sign of life from {} {} for {:.1f} s", facts.cause, word,
                       fmt::join(silent, ", "), longest);
  }
  if (behind.empty()) return fmt::format("{}; all ranks are at the same collective", facts.cause);
  return fmt::format("{}; {} {} behind", facts.cause, word, fmt::join(behind, ", "));
}

}  // namespace

std::string encode(const RankState& state) {
  return Json{{"beat", state.beat},
              {"section", state.section.substr(0, kMaxWhatBytes)},
              {"step", state.step},
              {"groups", groups_json(state)},
              {"bye", state.goodbye}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<RankState> decode_rank_state(const std::string& text) {
  try {
    const Json json = parse_json(text, "sign of life", {4096, 8});
    RankState state;
    state.beat = json.at("beat").get<std::uint64_t>();
    state.section = json.at("section").get<std::string>();
    state.step = json.at("step").get<std::int64_t>();
    state.goodbye = json.at("bye").get<bool>();
    for (const auto& [name, group] : json.at("groups").items())
      state.groups[name] = {group.at("number").get<std::uint64_t>(),
                            group.at("what").get<std::string>(), group.at("finished").get<bool>()};
    return state;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

HangReport report_hang(const HangFacts& facts) {
  const std::vector<int> silent = silent_ranks(facts);
  HangReport report;
  report.behind = silent.empty() ? slowest_ranks(facts) : silent;
  report.headline = headline(facts, silent, report.behind);
  OrderedJson ranks = OrderedJson::array();
  for (const auto& [rank, peer] : facts.peers) {
    OrderedJson entry{{"rank", rank}, {"silent_s", peer.silent_s}};
    if (peer.state) {
      entry["section"] = peer.state->section;
      entry["step"] = peer.state->step;
      entry["last_collectives"] = groups_json(*peer.state);
    }
    ranks.push_back(entry);
  }
  report.json = OrderedJson{{"time", utc_timestamp()}, {"reporter", facts.reporter},
                            {"cause", facts.cause},    {"headline", report.headline},
                            {"behind", report.behind}, {"ranks", ranks}}
                    .dump(2) +
                "\n";
  return report;
}

}  // namespace wmtp::comm
