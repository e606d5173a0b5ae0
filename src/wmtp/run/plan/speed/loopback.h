// What a byte between two ranks of this machine costs: Gloo's way is TCP over the loopback device.
#pragma once
#include "wmtp/run/plan/step_timeline.h"

namespace wmtp::run {

// BLOCKS for some tens of milliseconds. Error io where no such connection can be made.
LinkModel measure_loopback();

}  // namespace wmtp::run
