// What this thread does, recorded by Kineto, LibTorch's profiler: operators and the scopes of
// tensor/profile_scope.h; on a GPU what runs there too, whichever thread started it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "wmtp/tensor/tensor.h"

namespace wmtp::run {

struct ProfiledSpan {
  enum class Kind { scope, operation, device };  // device: a kernel or copy on the GPU
  std::string name;
  Kind kind = Kind::operation;
  std::int64_t start_ns = 0, end_ns = 0;

  std::int64_t duration_ns() const { return end_ns - start_ns; }
};

class Profiler {
 public:
  // Begins. One at a time in a process. Kineto logs to stderr as KINETO_LOG_LEVEL says.
  explicit Profiler(c10::Device device);
  ~Profiler();  // drops what was not written
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // BLOCKS until the device is idle, ends, and writes the Chrome trace: a whole file or none
  // (Error io). `mode`: of the file, see AtomicFile. To be called once.
  std::vector<ProfiledSpan> finish(const std::filesystem::path& trace, unsigned mode);

 private:
  c10::Device device_;
  bool running_ = true;
};

}  // namespace wmtp::run
