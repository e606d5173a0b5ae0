// Where a run tells of itself. Rank 0 only, which is the caller's duty; values are already reduced.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "wmtp/tracking/histogram.h"
#include "wmtp/tracking/point.h"
#include "wmtp/tracking/progress.h"
#include "wmtp/tracking/run_event.h"
#include "wmtp/tracking/run_summary.h"
#include "wmtp/tracking/sample_view.h"

namespace wmtp::tracking {

// Each sink takes what it has a place for and leaves out the rest. THREADS: one at a time. Nothing
// is thrown: a sink that cannot write warns once and goes on, since lost numbers must not cost a
// run.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void resumed(const Resumed&) {}  // before anything else of a run that goes on
  virtual void point(const Point&) {}      // numbers that are kept
  virtual void event(const RunEvent&) {}
  virtual void histogram(const Histogram&) {}
  virtual void sample(const DecodedSample&) {}
  virtual void progress(const Progress&) {}  // every step, for who watches
  virtual void validating(const ValidationProgress&) {}
  virtual void validation(const Validation&) {}
  virtual void saving(std::int64_t /*step*/) {}
  virtual void saved(const SavedCheckpoint&) {}
  virtual void finished(const RunSummary&) {}  // the loop has ended, whatever way
  // BLOCKS until all that was told is where a kill of the process cannot take it away.
  virtual void flush() {}
};

// Passes everything on to each of its sinks, in the order they were added.
class FanOut : public Sink {
 public:
  void add(std::shared_ptr<Sink> sink);
  bool empty() const { return sinks_.empty(); }
  void resumed(const Resumed& resumed) override;
  void point(const Point& point) override;
  void event(const RunEvent& event) override;
  void histogram(const Histogram& histogram) override;
  void sample(const DecodedSample& sample) override;
  void progress(const Progress& progress) override;
  void validating(const ValidationProgress& at) override;
  void validation(const Validation& validation) override;
  void saving(std::int64_t step) override;
  void saved(const SavedCheckpoint& saved) override;
  void finished(const RunSummary& summary) override;
  void flush() override;

 private:
  std::vector<std::shared_ptr<Sink>> sinks_;
};

}  // namespace wmtp::tracking
