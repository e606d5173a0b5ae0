#include "emulated_gpu/device/recording.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace wmtp::emulated {
namespace {

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

Recording::Recording(cudaStream_t origin) : origin_(origin), streams_{{origin, {}}} {
  static std::atomic<std::uint64_t> last = 0;
  number_ = ++last;
  recorder() = this;
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

void refuse_while_recording(const char* what) {
  TORCH_CHECK(recorder() == nullptr, what, " while work is recorded");
}

// On a stream of its own, as a capture is: the default one cannot be recorded.
std::unique_ptr<RecordedWork> record(const std::function<void()>& work) {
  refuse_while_recording("a recording");
  do_all();
  static const c10::Stream stream =
      c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getStreamFromGlobalPool(gpu());
  const c10::StreamGuard guard(stream);
  Recording recording(stream_of(stream.id()));
  work();
  return std::make_unique<Replayed>(recording.finish());
}

}  // namespace wmtp::emulated
