// Which thread runs, and what threads do together.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "emulated/site.h"
#include "emulated/vector_types.h"

// Of the thread that runs. One set for the process: launches wait for each other.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace wmtp::emulated {

enum class WarpOp { sync, ballot, shuffle, shuffle_up, shuffle_down, shuffle_xor };

// What one lane brings to an operation of its warp.
struct WarpRequest {
  WarpOp op;
  unsigned mask;
  std::uint64_t bits;  // the value; of a ballot whether the predicate holds
  int lane = 0;        // the source lane, the distance or the mask of a shuffle
  int width = 32;
};

void synchronize_block(Site site);
// The lane's result, once all lanes of the mask have come.
std::uint64_t exchange(const WarpRequest& request, Site site);

template <class T>
T shuffled(WarpOp op, unsigned mask, T value, int lane, int width, Site site) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "no shuffle moves this type");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange({op, mask, bits, lane, width}, site);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace wmtp::emulated

inline void __syncthreads(wmtp::emulated::Site site = wmtp::emulated::Site::here()) {
  wmtp::emulated::synchronize_block(site);
}
inline void __syncwarp(unsigned mask = 0xffffffffu,
                       wmtp::emulated::Site site = wmtp::emulated::Site::here()) {
  wmtp::emulated::exchange({wmtp::emulated::WarpOp::sync, mask, 0}, site);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              wmtp::emulated::Site site = wmtp::emulated::Site::here()) {
  return static_cast<unsigned>(wmtp::emulated::exchange(
      {wmtp::emulated::WarpOp::ballot, mask, predicate != 0 ? 1u : 0u}, site));
}
inline int __any_sync(unsigned mask, int predicate,
                      wmtp::emulated::Site site = wmtp::emulated::Site::here()) {
  return __ballot_sync(mask, predicate, site) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      wmtp::emulated::Site site = wmtp::emulated::Site::here()) {
  return __ballot_sync(mask, predicate, site) == mask;
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              wmtp::emulated::Site site = wmtp::emulated::Site::here()) {
  return wmtp::emulated::shuffled(wmtp::emulated::WarpOp::shuffle, mask, value, source, width,
                                  site);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32,
                 wmtp::emulated::Site site = wmtp::emulated::Site::here()) {
  return wmtp::emulated::shuffled(wmtp::emulated::WarpOp::shuffle_up, mask, value,
                                  static_cast<int>(distance), width, site);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32,
                   wmtp::emulated::Site site = wmtp::emulated::Site::here()) {
  return wmtp::emulated::shuffled(wmtp::emulated::WarpOp::shuffle_down, mask, value,
                                  static_cast<int>(distance), width, site);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  wmtp::emulated::Site site = wmtp::emulated::Site::here()) {
  return wmtp::emulated::shuffled(wmtp::emulated::WarpOp::shuffle_xor, mask, value, lane_mask,
                                  width, site);
}
