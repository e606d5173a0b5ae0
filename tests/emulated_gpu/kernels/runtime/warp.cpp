// Operations of a warp: each lane leaves its request and waits; the last lane of the mask that
// comes computes the results of all.
#include <bit>
#include <cstdio>

#include "emulated_gpu/kernels/runtime/block.h"
#include "emulated_gpu/kernels/runtime/fault.h"

namespace wmtp::emulated {
namespace {

bool is_width(int width) {
  return width >= 1 && width <= kWarp && (width & (width - 1)) == 0;
}

std::string hex(unsigned mask) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", mask);
  return text;
}

// The lane a shuffle reads; the lane itself where the source lies outside of its segment.
int source_lane(const WarpRequest& request, int lane) {
  const int first = lane & ~(request.width - 1), last = first + request.width - 1;
  switch (request.op) {
    case WarpOp::shuffle:
      return first + (request.lane & (request.width - 1));
    case WarpOp::shuffle_up:
      return lane - request.lane < first ? lane : lane - request.lane;
    case WarpOp::shuffle_down:
      return lane + request.lane > last ? lane : lane + request.lane;
    case WarpOp::shuffle_xor:
      return (lane ^ request.lane) > last ? lane : lane ^ request.lane;
    case WarpOp::sync:
    case WarpOp::ballot:
      break;
  }
  return lane;
}

}  // namespace

const char* name_of(WarpOp op) {
  switch (op) {
    case WarpOp::sync:
      return "__syncwarp";
    case WarpOp::ballot:
      return "__ballot_sync";
    case WarpOp::shuffle:
      return "__shfl_sync";
    case WarpOp::shuffle_up:
      return "__shfl_up_sync";
    case WarpOp::shuffle_down:
      return "__shfl_down_sync";
    case WarpOp::shuffle_xor:
      return "__shfl_xor_sync";
  }
  return "";
}

void Block::refuse(const WarpRequest& request, Site site) const {
  const std::string where = std::string(name_of(request.op)) + " at " + text_of(site);
  if (!is_width(request.width))
    fault(where + ": a width of " + std::to_string(request.width) +
          "; it must be a power of two up to 32");
  const std::string mask = where + ": its mask " + hex(request.mask);
  if ((request.mask >> lane() & 1u) == 0)
    fault(mask + " does not name lane " + std::to_string(lane()) + " itself");
  const int other = std::countr_zero(request.mask & gone_lanes_[warp()]);
  const bool returned = warp() * kWarp + other < num_threads_;
  fault(mask + " names lane " + std::to_string(other) +
        (returned ? ", which has returned" : ", which the block does not have"));
}

// Whether the other lanes of the current one's mask wait with the same mask, and all for the same.
bool Block::all_have_come(const WarpRequest& request, Site site) const {
  const std::uint32_t others = request.mask & ~(1u << lane());
  if ((others & waiting_lanes_[warp()]) != others) return false;
  for (std::uint32_t left = others; left != 0; left &= left - 1) {
    const Thread& other = of_lane(std::countr_zero(left));
    if (other.request.mask != request.mask) return false;
    if (other.request.op != request.op || !(other.site == site))
      fault(std::string(name_of(request.op)) + " at " + text_of(site) + ", while lane " +
            std::to_string(std::countr_zero(left)) + " of its mask waits in the " +
            name_of(other.request.op) + " at " + text_of(other.site));
  }
  return true;
}

void Block::complete(unsigned mask) {
  std::uint64_t ballot = 0;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const int i = std::countr_zero(left);
    ballot |= (of_lane(i).request.bits & 1u) << i;
  }
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const int i = std::countr_zero(left);
    Thread& thread = of_lane(i);
    const int source = source_lane(thread.request, i);
    if ((mask >> source & 1u) == 0)
      fault(std::string(name_of(thread.request.op)) + " at " + text_of(thread.site) + ": lane " +
            std::to_string(i) + " reads lane " + std::to_string(source) + ", which its mask " +
            hex(mask) + " does not name");
    thread.result = thread.request.op == WarpOp::ballot ? ballot : of_lane(source).request.bits;
    thread.state = State::running;
  }
  waiting_lanes_[warp()] &= ~mask;
  runnable_lanes_[warp()] |= mask;
}

std::uint64_t Block::exchange(const WarpRequest& request, Site site) {
  Thread& self = threads_[current_];
  const bool names_itself = (request.mask >> lane() & 1u) != 0;
  if (!names_itself || !is_width(request.width) || (request.mask & gone_lanes_[warp()]) != 0)
    refuse(request, site);
  self.request = request, self.site = site;
  if (all_have_come(request, site)) {
    complete(request.mask);
  } else {
    waiting_lanes_[warp()] |= 1u << lane();
    wait(State::in_warp_op, site);
  }
  return self.result;
}

}  // namespace wmtp::emulated
