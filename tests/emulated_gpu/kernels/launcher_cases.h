// Every launcher of the table at small and odd shapes, on host memory of exactly the size it needs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "wmtp/kernels/cuda/launchers.h"

namespace wmtp::emulated::testing {

// What a launch reads and writes. Each array is an allocation of its own, filled with numbers that
// depend on its place in the order of allocation alone.
class DeviceMemory {
 public:
  // Where `off_boundary`, arrays begin one element behind a multiple of 16 bytes.
  explicit DeviceMemory(bool off_boundary) : off_boundary_(off_boundary) {}

  void* elements(kernels::Element element, std::int64_t count);  // within [-1, 1)
  float* floats(std::int64_t count);
  double* doubles(std::int64_t count);  // zeros
  std::int32_t* ints(const std::vector<std::int32_t>& values);
  std::int64_t* longs(const std::vector<std::int64_t>& values);
  std::uint8_t* bytes(std::int64_t count, unsigned below);

  std::vector<std::byte> contents() const;  // of all arrays

 private:
  struct Array {
    std::unique_ptr<std::byte[]> memory;
    std::size_t shift, bytes;
  };

  void* allocate(std::int64_t count, std::size_t element_bytes);

  bool off_boundary_;
  std::vector<Array> arrays_;
};

struct LauncherCase {
  std::string name;
  std::function<int(DeviceMemory&)> launch;  // the launcher's code
};

std::vector<LauncherCase> launcher_cases();

}  // namespace wmtp::emulated::testing
