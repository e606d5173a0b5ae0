#include "emulated_gpu/device/recording.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace wmtp::emulated {
namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

class Replayed final : public RecordedWork {
 public:
  explicit Replayed(Recording::Graph graph)
      : graph_(std::make_shared<const Recording::Graph>(std::move(graph))) {}
  void replay() override {
    give(current_stream(), [graph = graph_] {
      for (const auto& work : graph->work) work();
    });
  }

 private:
  std::shared_ptr<const Recording::Graph> graph_;
};

}  // namespace

Recording::Recording(cudaStream_t origin, std::uint64_t recorder)
    : number_(next_number()), recorder_(recorder), origin_(origin), streams_{{origin, {}}} {
  emulated::recorder() = this;
}

Recording::~Recording() {
  recorder() = nullptr;
}

Recording* Recording::current() {
  return static_cast<Recording*>(recorder());
}

void Recording::note(cudaStream_t stream, std::function<void()> work) {
  const auto found = streams_.find(stream);
  TORCH_CHECK(found != streams_.end(),
              "work for a stream that does not follow the one that is recorded");
  ++found->second[stream];
  graph_.work.push_back(std::move(work));
}

void Recording::note_release(const Memory& memory) {
  graph_.work.push_back([memory] { poison(memory); });
}

std::optional<Recording::Point> Recording::point(cudaStream_t stream) const {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? std::nullopt : std::optional(found->second);
}

void Recording::wait(cudaStream_t stream, const Point& point) {
  Point& reached = streams_[stream];
  for (const auto& [other, count] : point) reached[other] = std::max(reached[other], count);
}

// Kernels name addresses without keeping them, so all memory that there is stays: where a graph
// names some that is given back before a replay, that replay reads poison.
Recording::Graph Recording::finish() {
  Point& last = streams_.at(origin_);
  for (auto& [stream, point] : streams_)
    TORCH_CHECK(last[stream] == point[stream],
                "the recording ends before the work of a side stream was waited for");
  for (Memory& memory : memory_in_use()) keep(memory);
  return std::move(graph_);
}

std::uint64_t current_recording() {
  const Recording* const recording = Recording::current();
  return recording ? recording->number() : 0;
}

std::uint64_t current_taker() {
  const Recording* const recording = Recording::current();
  return recording ? recording->taker() : 0;
}

void refuse_while_recording(const char* what) {
  TORCH_CHECK(recorder() == nullptr, what, " while work is recorded");
}

namespace {

// On a stream of its own, as a capture is: the default one cannot be recorded.
const c10::Stream& recording_stream() {
  static const c10::Stream stream =
      c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getStreamFromGlobalPool(gpu());
  return stream;
}

class EmulatedRecorder final : public PieceRecorder {
 public:
  void begin() override { piece_.emplace(stream_of(recording_stream().id()), number_); }
  bool empty() const override { return piece_->empty(); }
  std::unique_ptr<RecordedWork> end() override {
    auto work = std::make_unique<Replayed>(piece_->finish());
    piece_.reset();
    return work;
  }

 private:
  c10::StreamGuard guard_{recording_stream()};
  std::uint64_t number_ = next_number();
  std::optional<Recording> piece_;
};

}  // namespace

std::unique_ptr<PieceRecorder> make_recorder() {
  refuse_while_recording("a recording");
  do_all();
  return std::make_unique<EmulatedRecorder>();
}

}  // namespace wmtp::emulated
