#include "emulated_gpu/kernels/runtime/streams.h"

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace wmtp::emulated {
namespace {

struct Queue {
  std::deque<std::function<void()>> work;
  std::size_t num_done = 0;
};

struct Streams {
  std::mutex mutex;
  std::map<cudaStream_t, Queue> queues;
};

// Never destroyed: memory that is given back at the very end may still be in a queue.
Streams& streams() {
  static Streams* const instance = new Streams;
  return *instance;
}

std::optional<std::function<void()>> next_until(cudaStream_t stream, std::size_t count) {
  const std::lock_guard lock(streams().mutex);
  const auto found = streams().queues.find(stream);
  if (found == streams().queues.end()) return std::nullopt;
  Queue& queue = found->second;
  if (queue.work.empty() || queue.num_done >= count) return std::nullopt;
  std::function<void()> work = std::move(queue.work.front());
  queue.work.pop_front();
  ++queue.num_done;
  return work;
}

}  // namespace

Recorder*& recorder() {
  thread_local Recorder* current = nullptr;
  return current;
}

void give(cudaStream_t stream, std::function<void()> work) {
  if (recorder() != nullptr) return recorder()->note(stream, std::move(work));
  if (stream == nullptr) return work();
  const std::lock_guard lock(streams().mutex);
  streams().queues[stream].work.push_back(std::move(work));
}

std::size_t num_given(cudaStream_t stream) {
  const std::lock_guard lock(streams().mutex);
  const auto found = streams().queues.find(stream);
  return found == streams().queues.end() ? 0 : found->second.num_done + found->second.work.size();
}

void do_until(cudaStream_t stream, std::size_t count) {
  while (const auto work = next_until(stream, count)) (*work)();
}

void do_all(cudaStream_t stream) {
  do_until(stream, num_given(stream));
}

void do_all() {
  std::vector<cudaStream_t> all;
  {
    const std::lock_guard lock(streams().mutex);
    for (const auto& [stream, queue] : streams().queues) all.push_back(stream);
  }
  for (const cudaStream_t stream : all) do_all(stream);
}

}  // namespace wmtp::emulated
