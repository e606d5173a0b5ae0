// What the collectives of a rank's step moved and how long the step waited for them, as a run
// reports it. Nothing here waits: on a GPU the times are those of a step that is over.
#pragma once
#include <deque>
#include <vector>

#include "wmtp/comm/communicator.h"
#include "wmtp/run/report/own_time.h"
#include "wmtp/training/objective.h"

namespace wmtp::run {

class CommFigures {
 public:
  // How many steps before a report a GPU's step is timed: the results of that one are read by then,
  // those of the steps after it may still be on their way.
  static constexpr std::int64_t kStepsToRead = 2;

  // BORROWS the groups.
  explicit CommFigures(std::vector<comm::Communicator*> groups);

  // STREAM. What was before counts no more. `timed`: also on a GPU, where it takes a few
  // microseconds of the host for each collective; steps on a CPU are always timed.
  void begin_step(bool timed);
  // `data_wait_s`: how long the step waited for its data.
  void end_step(double data_wait_s = 0);
  // `comm/*`, the same names on all ranks and whatever the strategy: of the step that ended last;
  // what are times on a GPU, of the last timed step that the stream has finished (0 before).
  training::Metrics numbers() const;
  // Of the timed steps that are over since the last call. On a GPU all that is not waiting is
  // compute or data.
  std::optional<OwnTime> take_own() { return own_.take(); }

 private:
  struct TimedStep {
    comm::CollectiveFigures figures;
    Moment begun, ended;
    double data_wait_s = 0, seconds = 0;
    bool settle();  // true: all of it is known
    OwnTime own() const;
  };

  std::vector<comm::Communicator*> groups_;
  c10::Device device_;
  Moment begun_;
  comm::CollectiveFigures last_;  // bytes and calls of the step that ended last
  std::deque<TimedStep> running_;
  TimedStep times_;
  OwnTimes own_;
};

}  // namespace wmtp::run
