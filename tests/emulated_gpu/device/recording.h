// What becomes a CUDA graph: work that a thread gives to streams, which is noted, with the
// addresses and numbers that it names, and not done. Host code leaves nothing in it. Whatever a
// capture refuses is an error here (c10::Error): work of a stream that does not follow the
// recording's, a wait for a point outside of it, a side stream that nobody waits for in the end, a
// wait of the host, a copy from or to host memory. Noted work is replayed in the order in which it
// was given, which no event contradicts; a wait between its streams that is missing does not show.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "emulated_gpu/device/memory.h"
#include "emulated_gpu/device/streams.h"

namespace wmtp::emulated {

class Recording final : public Recorder {
 public:
  // How much of each stream's noted work lies before a point.
  using Point = std::map<cudaStream_t, std::size_t>;
  struct Graph {
    std::vector<std::function<void()>> work;
    std::vector<Memory> memory;  // of addresses that the work may name
  };

  // Of the calling thread, until it is destroyed. `recorder`: whose piece it is.
  Recording(cudaStream_t origin, std::uint64_t recorder);
  ~Recording() override;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  static Recording* current();                       // the calling thread's; null: none
  std::uint64_t number() const { return number_; }   // of this piece
  std::uint64_t taker() const { return recorder_; }  // of the memory that is taken meanwhile
  bool empty() const { return graph_.work.empty(); }

  void note(cudaStream_t stream, std::function<void()> work) override;
  void note_release(const Memory& memory);  // whatever stream is current
  void keep(const Memory& memory) { graph_.memory.push_back(memory); }

  std::optional<Point> point(cudaStream_t stream) const;  // absent: a stream outside
  void wait(cudaStream_t stream, const Point& point);
  Graph finish();

 private:
  std::uint64_t number_, recorder_;
  cudaStream_t origin_;
  std::map<cudaStream_t, Point> streams_;  // that follow the recording's, and their last points
  Graph graph_;
};

std::uint64_t current_recording();  // its number; 0: none
std::uint64_t current_taker();      // 0: no recording's
// Error "<what> while work is recorded".
void refuse_while_recording(const char* what);

// The service of tensor/cuda_plugin.h.
std::unique_ptr<PieceRecorder> make_recorder();

}  // namespace wmtp::emulated
