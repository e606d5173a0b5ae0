#include "wmtp/tracking/sink.h"

#include <utility>

namespace wmtp::tracking {

void FanOut::add(std::shared_ptr<Sink> sink) {
  sinks_.push_back(std::move(sink));
}

void FanOut::resumed(const Resumed& resumed) {
  for (const auto& sink : sinks_) sink->resumed(resumed);
}

void FanOut::point(const Point& point) {
  for (const auto& sink : sinks_) sink->point(point);
}

void FanOut::event(const RunEvent& event) {
  for (const auto& sink : sinks_) sink->event(event);
}

void FanOut::histogram(const Histogram& histogram) {
  for (const auto& sink : sinks_) sink->histogram(histogram);
}

void FanOut::sample(const DecodedSample& sample) {
  for (const auto& sink : sinks_) sink->sample(sample);
}

void FanOut::progress(const Progress& progress) {
  for (const auto& sink : sinks_) sink->progress(progress);
}

void FanOut::validating(const ValidationProgress& at) {
  for (const auto& sink : sinks_) sink->validating(at);
}

void FanOut::validation(const Validation& validation) {
  for (const auto& sink : sinks_) sink->validation(validation);
}

void FanOut::saved(const SavedCheckpoint& saved) {
  for (const auto& sink : sinks_) sink->saved(saved);
}

void FanOut::finished(const RunSummary& summary) {
  for (const auto& sink : sinks_) sink->finished(summary);
}

void FanOut::saving(std::int64_t step) {
  for (const auto& sink : sinks_) sink->saving(step);
}

void FanOut::flush() {
  for (const auto& sink : sinks_) sink->flush();
}

}  // namespace wmtp::tracking
