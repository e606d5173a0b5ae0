// What a rank is doing, as its sign of life says it, and the report of a hang made from those of
// all.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/comm/collective_log.h"

namespace wmtp::comm {

struct RankState {
  std::uint64_t beat = 0;
  std::string section = {};
  std::int64_t step = 0;
  std::map<std::string, LastCollective> groups = {};
  bool goodbye = false;
};

std::string encode(const RankState& state);
std::optional<RankState> decode_rank_state(const std::string& text);  // nothing for foreign text

// What is known of a peer: its last state and for how long it has not changed.
struct PeerView {
  std::optional<RankState> state = {};
  double silent_s = 0;
};

struct HangReport {
  std::string headline = {};  // "rank 2 gave no sign of life for 5.0 s"
  std::vector<int> behind = {};
  std::string json = {};
};

struct HangFacts {
  std::string cause = {};  // why we look
  int reporter = 0;
  double silent_limit_s = 2.5;         // longer: not answering
  std::map<int, PeerView> peers = {};  // the reporter included
};

// Behind are the ranks that do not answer; else, in the first group whose numbers differ, those
// with the fewest collectives started.
HangReport report_hang(const HangFacts& facts);

}  // namespace wmtp::comm
