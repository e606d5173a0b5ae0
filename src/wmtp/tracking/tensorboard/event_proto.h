// Messages of TensorFlow's event.proto, summary.proto and tensor.proto as bytes: the few that a run
// writes, with the field numbers that those files fix.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "wmtp/tracking/histogram.h"

namespace wmtp::tracking::tensorboard {

// Where in the run an event stands.
struct Moment {
  double time_s = 0;  // wall clock, seconds since 1970
  std::int64_t step = 0;
};

// Whole events. The first one of a file says its version.
std::string version_event(double time_s);
std::string summary_event(const Moment& moment, std::string_view values);
// From here on a process that went on from a checkpoint writes: readers drop what they have of this
// step and later ones, which the process before did in vain.
std::string restart_event(const Moment& moment);

// Summary values; several one after the other are the values of one event. REQUIRES UTF-8.
std::string scalar_value(std::string_view tag, double value);
// As a tensor [bins, 3] of (left edge, right edge, count) in double precision, which is what
// TensorBoard makes of the older HistogramProto too, in single precision.
std::string histogram_value(std::string_view tag, const Histogram& histogram);
// Markdown, of which TensorBoard shows a subset of HTML.
std::string text_value(std::string_view tag, std::string_view markdown);

}  // namespace wmtp::tracking::tensorboard
