// metrics.jsonl: {"step": 10, "time": 1763200000.123, "train/loss": 1.5, ...} a line, and
// {"event": "resume", "step": 10}.
#pragma once
#include "wmtp/tracking/append_file.h"
#include "wmtp/tracking/sink.h"

namespace wmtp::tracking {

class JsonlSink : public Sink {
 public:
  explicit JsonlSink(std::filesystem::path path) : file_(std::move(path)) {}
  void resumed(const Resumed& resumed) override;
  void event(const RunEvent& event) override;
  void point(const Point& point) override;

 private:
  AppendFile file_;
};

}  // namespace wmtp::tracking
