#include "wmtp/tracking/jsonl_sink.h"

#include <cmath>

namespace wmtp::tracking {

void JsonlSink::point(const Point& point) {
  // Milliseconds are enough for a label and keep lines short.
  OrderedJson line{{"step", point.step}, {"time", std::round(point.time_s * 1e3) / 1e3}};
  for (const auto& [name, value] : point.values) line[name] = json_number(value);
  file_.line(line);
}

void JsonlSink::event(const RunEvent& event) {
  OrderedJson line{{"event", event.kind},
                   {"step", event.step},
                   {"time", std::round(event.time_s * 1e3) / 1e3},
                   {"text", event.text}};
  line.update(event.facts);
  file_.line(line);
}

void JsonlSink::resumed(const Resumed& resumed) {
  file_.line({{"event", "resume"}, {"step", resumed.step}});
}

}  // namespace wmtp::tracking
