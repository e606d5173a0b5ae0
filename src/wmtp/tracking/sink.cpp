#include "wmtp/tracking/sink.h"

#include <chrono>

namespace wmtp::tracking {

void FanOut::add(std::unique_ptr<Sink> sink) {
  sinks_.push_back(std::move(sink));
}

void FanOut::point(const Point& point) {
  for (const auto& sink : sinks_) sink->point(point);
}

void FanOut::event(std::string_view name, const OrderedJson& fields) {
  for (const auto& sink : sinks_) sink->event(name, fields);
}

void FanOut::flush() {
  for (const auto& sink : sinks_) sink->flush();
}

double wall_time_s() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace wmtp::tracking
