// Which ranks hold the others up, from what each spends on its own steps: compared once a window,
// with one small all-gather that nobody waits for.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/comm/session.h"
#include "wmtp/run/report/own_time.h"
#include "wmtp/run/report/rank_numbers.h"

namespace wmtp::run {

struct Straggler {
  int rank = 0;
  std::string host;
  double own_s = 0;  // a step, without waiting for others
  // compute, data or communication: where it loses most against the fastest rank
  std::string_view cause;
};

// Of one window.
struct RankSpeeds {
  double slowest = 1;  // speed of the slowest rank, as a part of the fastest rank's
  int fastest_rank = 0;
  double fastest_s = 0;
  std::vector<Straggler> stragglers;  // to be named now, the slowest first
};

class StragglerWatch {
 public:
  static constexpr std::int64_t kWindow = 30;    // steps
  static constexpr std::int64_t kSilence = 500;  // steps in which a rank is named once
  // A rank is one when it is slower than this part of the fastest.
  static constexpr double kSlow = 0.75;
  // What costs less a step than this is no one's concern.
  static constexpr double kLeast_s = 2e-3;

  explicit StragglerWatch(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {}

  // Whether that step is timed on a GPU: one of three is enough and costs little.
  bool is_sampled(std::int64_t step) const { return hosts_.size() > 1 && step % 3 == 0; }
  // COLLECTIVE at the end of a window, and of no effect at other steps; asks `own` for this rank's
  // times then.
  template <class Own>
  RankNumbers gather(std::int64_t step, comm::Communicator& group, Own&& own) const {
    if (hosts_.size() < 2 || step % kWindow != 0) return {};
    return RankNumbers(group, numbers_of(own()));
  }
  // `rows`: what gather() has of each rank. Absent where they are of no window.
  std::optional<RankSpeeds> compare(std::int64_t step,
                                    const std::vector<std::vector<double>>& rows);

 private:
  static std::vector<RankNumber> numbers_of(const std::optional<OwnTime>& own);

  std::vector<std::string> hosts_;       // by rank
  std::map<int, std::int64_t> told_at_;  // rank -> step
};

// COLLECTIVE, BLOCKS. The host of each rank, with the number of the node where there are several,
// which may share a name.
std::vector<std::string> rank_hosts(comm::ProcessGroupSession& session);

}  // namespace wmtp::run
