// The door to the GPU. Everything that needs libtorch_cuda lives in one shared library,
// libwmtp_cuda.so, which fills the tables below; without it they are empty and asking for a GPU is
// a clear error.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace wmtp {

namespace kernels {
struct CudaKernels;  // kernels/cuda/launchers.h
}
namespace comm {  // comm/groups.h
class Communicator;
struct GroupSpec;
}  // namespace comm

struct GpuInfo {
  std::string name, uuid;
  std::int64_t total_bytes = 0;
  int multiprocessors = 0;
  int major = 0, minor = 0;
};

struct GpuMemory {
  std::int64_t allocated_bytes = 0, reserved_bytes = 0;
  std::int64_t peak_allocated_bytes = 0, peak_reserved_bytes = 0;
  std::int64_t free_bytes = 0;  // of the device, as the driver says
};

// A stretch of a stream's work that is done again and again as it was recorded: the same kernels at
// the same addresses, with every number of the host that was passed to them.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  virtual void replay() = 0;  // STREAM
};

// Records pieces of work one after the other, as CUDA graphs: what is enqueued between begin() and
// end() on the current stream, which is one for recordings as long as the recorder lives, and on
// those that it forks from it and joins again within the piece. Nothing of it runs before the first
// replay. Memory that a piece takes is there for the later ones of its recorder; what they take and
// give back is shared by the pieces of all recorders, so nothing of one recorder may be needed by
// another. REQUIRES a run of the same work before, which makes what is made once.
class PieceRecorder {
 public:
  virtual ~PieceRecorder() = default;  // the piece under way is given up, the stream as before
  virtual void begin() = 0;
  virtual bool empty() const = 0;  // nothing was enqueued since begin()
  // Throws c10::Error for what cannot be recorded, as enqueueing it does.
  virtual std::unique_ptr<RecordedWork> end() = 0;
};

// One slot per service.
struct CudaServices {
  int (*device_count)() = nullptr;
  GpuInfo (*device_info)(int index) = nullptr;
  void (*set_device)(int index) = nullptr;
  void* (*current_stream)() = nullptr;  // cudaStream_t of ATen's current stream
  void (*synchronize)() = nullptr;
  GpuMemory (*memory)(int index) = nullptr;
  void (*reset_peak_memory)(int index) = nullptr;
  std::string (*versions)() = nullptr;  // driver, runtime, NCCL in words
  // A cudaEvent_t with a time, recorded on the current stream; null while that one is captured.
  void* (*record_event)() = nullptr;
  // Never waits: negative as long as not both are reached.
  double (*seconds_between)(void* from, void* to) = nullptr;
  void (*release_event)(void* event) = nullptr;  // for another record_event(); calls no CUDA
  std::unique_ptr<PieceRecorder> (*recorder)() = nullptr;  // BLOCKS until the device is idle
  // For tests: from now on an operator for which the host waits is an error (c10::Error).
  void (*forbid_host_waits)(bool forbidden) = nullptr;
};

struct CudaTables {
  CudaServices services;
  const kernels::CudaKernels* kernels = nullptr;
  std::unique_ptr<comm::Communicator> (*nccl_factory)(const comm::GroupSpec&) = nullptr;
};

// Bumped whenever a table or a launcher's arguments change.
inline constexpr unsigned kCudaPluginAbi = 13;
// The plugin's one symbol: fills the tables and returns true, or false when the ABI differs.
using CudaPluginEntry = bool (*)(unsigned abi, CudaTables* tables);
inline constexpr const char* kCudaPluginSymbol = "wmtp_cuda_plugin";

// Opens `library` and keeps it. REQUIRES: called before any other LibTorch call of the process
// (once CUDA's hooks were asked for without libtorch_cuda, CUDA stays invisible). Returns "" or why
// there is no GPU.
std::string load_cuda_plugin(const std::string& library);
bool cuda_loaded();
// Whether the loader finds the NVIDIA driver's library. Without it nothing of CUDA loads, and what
// the loader says of the first library that it misses is beside the point.
bool cuda_driver_found();
// Error device "no GPU here: <why>" when the plugin is not loaded.
const CudaTables& cuda_tables();

}  // namespace wmtp
