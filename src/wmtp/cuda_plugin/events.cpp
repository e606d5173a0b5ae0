#include "wmtp/cuda_plugin/events.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <mutex>
#include <vector>

namespace wmtp::cuda_plugin {
namespace {

struct EventPool {
  std::mutex mutex;
  std::vector<cudaEvent_t> free;
};

// Never destroyed: at the end of the process the driver may be gone before the last event.
EventPool& pool() {
  static EventPool* const events = new EventPool;
  return *events;
}

cudaEvent_t free_event() {
  {
    const std::lock_guard lock(pool().mutex);
    if (!pool().free.empty()) {
      const cudaEvent_t event = pool().free.back();
      pool().free.pop_back();
      return event;
    }
  }
  cudaEvent_t event = nullptr;
  C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDefault));
  return event;
}

}  // namespace

void* record_event() {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  C10_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
  if (status != cudaStreamCaptureStatusNone) return nullptr;
  const cudaEvent_t event = free_event();
  C10_CUDA_CHECK(cudaEventRecord(event, stream));
  return event;
}

double seconds_between(void* from, void* to) {
  // Asking for an event would break a capture that another thread has under way in its strict mode.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  C10_CUDA_CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
  float milliseconds = 0;
  const cudaError_t found = cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(from),
                                                 static_cast<cudaEvent_t>(to));
  C10_CUDA_CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
  if (found == cudaErrorNotReady) {
    (void)cudaGetLastError();  // no error of anybody else's
    return -1;
  }
  C10_CUDA_CHECK(found);
  return static_cast<double>(milliseconds) * 1e-3;
}

void release_event(void* event) {
  const std::lock_guard lock(pool().mutex);
  pool().free.push_back(static_cast<cudaEvent_t>(event));
}

}  // namespace wmtp::cuda_plugin
