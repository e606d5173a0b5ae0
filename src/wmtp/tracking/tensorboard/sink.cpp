#include "wmtp/tracking/tensorboard/sink.h"

#include <fmt/format.h>

#include "wmtp/tracking/tensorboard/event_proto.h"
#include "wmtp/tracking/tensorboard/markdown.h"

namespace wmtp::tracking {

TensorboardSink::TensorboardSink(const std::filesystem::path& folder, double start_time_s)
    : file_(folder, start_time_s) {
  file_.write(tensorboard::version_event(start_time_s));
}

void TensorboardSink::configuration(const std::vector<std::pair<std::string, std::string>>& facts) {
  file_.write(tensorboard::summary_event(
      {wall_time_s(), 0},
      tensorboard::text_value("configuration", tensorboard::table_markdown(facts))));
}

void TensorboardSink::resumed(const Resumed& resumed) {
  file_.write(tensorboard::restart_event({wall_time_s(), resumed.step + 1}));
}

void TensorboardSink::point(const Point& point) {
  std::string values;
  for (const auto& [name, value] : point.values) values += tensorboard::scalar_value(name, value);
  file_.write(tensorboard::summary_event({point.time_s, point.step}, values));
}

void TensorboardSink::event(const RunEvent& event) {
  file_.write(tensorboard::summary_event(
      {event.time_s, event.step},
      tensorboard::text_value("event/" + event.kind,
                              tensorboard::table_markdown({{event.kind, event.text}}))));
}

void TensorboardSink::histogram(const Histogram& histogram) {
  if (histogram.counts.empty()) return;
  file_.write(tensorboard::summary_event(
      {wall_time_s(), histogram.step},
      tensorboard::histogram_value("histograms/" + histogram.name, histogram)));
}

void TensorboardSink::sample(const DecodedSample& sample) {
  // Readers keep one text for each tag and step.
  num_samples_ = sample.step == sample_step_ ? num_samples_ + 1 : 1;
  sample_step_ = sample.step;
  file_.write(tensorboard::summary_event(
      {wall_time_s(), sample.step}, tensorboard::text_value(fmt::format("sample/{}", num_samples_),
                                                            tensorboard::sample_markdown(sample))));
}

}  // namespace wmtp::tracking
