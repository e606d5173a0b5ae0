// Something a run noticed that is no number of every step.
#pragma once
#include <cstdint>
#include <string>

#include "wmtp/core/json.h"

namespace wmtp::tracking {

struct RunEvent {
  std::int64_t step = 0;
  double time_s = 0;      // wall clock, seconds since 1970
  std::string kind = {};  // "straggler", "loss_spike"; what `event` says in metrics.jsonl
  std::string text = {};  // for people, in one line
  OrderedJson facts = OrderedJson::object();  // the same for programs
};

}  // namespace wmtp::tracking
