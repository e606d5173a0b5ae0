// Where numbers of a run go. Rank 0 only, which is the caller's duty; values are already reduced.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wmtp/core/json.h"

namespace wmtp::tracking {

using NamedValues = std::vector<std::pair<std::string, double>>;

// What was measured at one step, under the names of docs/stages.md (`train/loss`, ...). A step may
// have several points; where two give the same name, the later one counts.
struct Point {
  std::int64_t step = 0;
  double time_s = 0;  // wall clock, seconds since 1970
  NamedValues values = {};
};

// THREADS: one at a time. Nothing thrown: a sink that cannot write warns once and goes on, since
// lost numbers must not cost a run.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void point(const Point& point) = 0;
  // Something that happened, e.g. event("resume", {{"step", 1200}}).
  virtual void event(std::string_view name, const OrderedJson& fields) = 0;
  virtual void flush() = 0;  // hands over what is still held
};

// Passes everything on to each of its sinks, in the order they were added.
class FanOut : public Sink {
 public:
  void add(std::unique_ptr<Sink> sink);
  bool empty() const { return sinks_.empty(); }
  void point(const Point& point) override;
  void event(std::string_view name, const OrderedJson& fields) override;
  void flush() override;

 private:
  std::vector<std::unique_ptr<Sink>> sinks_;
};

double wall_time_s();  // for Point::time_s

}  // namespace wmtp::tracking
