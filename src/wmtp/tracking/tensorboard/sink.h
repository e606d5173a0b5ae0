// What TensorBoard shows of a run: its numbers, how weights and values are spread, samples as text.
// Each process begins a file of its own, so a resume does too.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "wmtp/tracking/sink.h"
#include "wmtp/tracking/tensorboard/event_file.h"

namespace wmtp::tracking {

class TensorboardSink : public Sink {
 public:
  // Makes the folder where there is none. Failures are ErrorKind::io.
  TensorboardSink(const std::filesystem::path& folder, double start_time_s);

  // What the run is, as a table of names and values: the text `configuration`.
  void configuration(const std::vector<std::pair<std::string, std::string>>& facts);

  void resumed(const Resumed& resumed) override;
  void event(const RunEvent& event) override;           // a text under event/<kind>
  void point(const Point& point) override;              // scalars by their names
  void histogram(const Histogram& histogram) override;  // histograms/<name>
  void sample(const DecodedSample& sample) override;    // texts sample/1, sample/2 of a step
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  tensorboard::EventFile file_;
  std::int64_t sample_step_ = -1;  // of the last sample
  int num_samples_ = 0;            // told of that step
};

}  // namespace wmtp::tracking
