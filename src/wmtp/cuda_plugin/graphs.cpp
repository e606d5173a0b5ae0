#include "wmtp/cuda_plugin/graphs.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/cuda/MemPool.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

// Why in this order. A capture may not wait for anything that was recorded outside of it, so the
// device is idle when it begins. It may not free memory either: what the allocator holds unused
// goes back first, or a capture could run out of memory beside it. It is strict about the calls of
// its own thread alone, for the loader and the writer of checkpoints go on meanwhile.
//
// All captures are made on one stream, because cuBLAS keeps a workspace for each stream, and share
// one pool of memory: where two recorders use the same bytes, each writes them before it reads
// them. Between the pieces of one recorder nothing is captured and nothing done, so what one piece
// left is there for the next, at a replay too. A capture in which nothing was enqueued goes on
// instead of becoming a graph: LibTorch warns of empty ones.
//
// A capture that failed has to be ended before its stream does anything else. LibTorch leaves its
// allocators waiting for the end where the runtime refuses the capture, and what they wait with
// names the graph: so that ends here, and the graph is kept. It happens once in a run at most.

namespace wmtp::cuda_plugin {
namespace {

const c10::cuda::CUDAStream& recording_stream() {
  static const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  return stream;
}

// The allocator of pinned memory counts who uses the pool for itself.
at::HostAllocator& pinned_memory() {
  return *at::getHostAllocator(at::kCUDA);
}

// Never given up: cuBLAS keeps its workspace in it, and neither allocator takes a pool again whose
// last graph has gone.
c10::MempoolId_t shared_pool() {
  static at::cuda::MemPool* const pool = [] {
    auto* const made = new at::cuda::MemPool;
    pinned_memory().begin_allocate_to_pool(made->id(), [](c10::Stream) { return false; });
    pinned_memory().end_allocate_to_pool(made->id());
    return made;
  }();
  return pool->id();
}

void try_to(const std::function<void()>& end) {
  try {
    end();
  } catch (const c10::Error&) {  // LibTorch has done it
  }
}

void end_failed(at::cuda::CUDAGraph& graph) {
  try {
    graph.capture_end();
  } catch (const c10::Error&) {
    (void)cudaGetLastError();  // no error of anybody else's
    try_to([] {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(c10::cuda::current_device(),
                                                         shared_pool());
    });
    try_to([] { pinned_memory().end_allocate_to_pool(shared_pool()); });
  }
}

class Graph final : public RecordedWork {
 public:
  explicit Graph(std::unique_ptr<at::cuda::CUDAGraph> graph) : graph_(std::move(graph)) {}
  void replay() override { graph_->replay(); }

 private:
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

const c10::cuda::CUDAStream& stream_of_an_idle_device() {
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  c10::cuda::CUDACachingAllocator::emptyCache();
  return recording_stream();
}

class GraphRecorder final : public PieceRecorder {
 public:
  GraphRecorder() : guard_(stream_of_an_idle_device()) {}
  ~GraphRecorder() override {
    if (!graph_) return;
    end_failed(*graph_);
    (void)graph_.release();
  }

  void begin() override {
    graph_ = std::make_unique<at::cuda::CUDAGraph>();
    graph_->capture_begin(shared_pool(), cudaStreamCaptureModeThreadLocal);
  }
  bool empty() const override {
    cudaStreamCaptureStatus status{};
    cudaGraph_t graph = nullptr;
    C10_CUDA_CHECK(cudaStreamGetCaptureInfo(guard_.current_stream(), &status, nullptr, &graph,
                                            nullptr, nullptr, nullptr));
    std::size_t num_nodes = 0;
    C10_CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &num_nodes));
    return num_nodes == 0;
  }
  std::unique_ptr<RecordedWork> end() override {
    graph_->capture_end();
    return std::make_unique<Graph>(std::move(graph_));
  }

 private:
  c10::cuda::CUDAStreamGuard guard_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;  // under way
};

}  // namespace

std::unique_ptr<PieceRecorder> make_recorder() {
  return std::make_unique<GraphRecorder>();
}

}  // namespace wmtp::cuda_plugin
