// What the spans of a profile add up to.
#pragma once
#include <span>

#include "wmtp/run/profile/profiler.h"
#include "wmtp/run/profile/step_range.h"
#include "wmtp/tracking/profile_summary.h"

namespace wmtp::run {

// The scope of a whole step is this and its number.
inline constexpr const char* kStepScope = "step ";

// Phases are the scopes directly within a step, by name in the order they first come; what of the
// steps lies in none of them and what lies between the steps follow, and how long a device went on
// with what they had started, which is part of the wall time. Operators count by their own time, so
// that with the gaps they add up to the wall time; where kernels ran on a GPU those take their
// place, which may overlap. REQUIRES spans of one thread, which nest; without a step all is zero.
// Fills in all but rank, world and device.
tracking::ProfileSummary time_table(std::span<const ProfiledSpan> spans, const StepRange& steps);

}  // namespace wmtp::run
