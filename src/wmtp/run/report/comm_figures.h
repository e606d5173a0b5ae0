// What the collectives of a rank's step moved and how long the step waited for them, as a run
// reports it. Nothing here waits: on a GPU the times are those of a step that is over.
#pragma once
#include <deque>
#include <vector>

#include "wmtp/comm/communicator.h"
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
  void end_step();
  // `comm/*`, the same names on all ranks and whatever the strategy: of the step that ended last;
  // what are times on a GPU, of the last timed step that the stream has finished (0 before).
  training::Metrics numbers() const;

 private:
  struct TimedStep {
    comm::CollectiveFigures figures;
    Moment begun, ended;
    double seconds = 0;
    bool settle();  // true: all of it is known
  };

  std::vector<comm::Communicator*> groups_;
  c10::Device device_;
  Moment begun_;
  comm::CollectiveFigures last_;  // bytes and calls of the step that ended last
  std::deque<TimedStep> running_;
  TimedStep times_;
};

}  // namespace wmtp::run
