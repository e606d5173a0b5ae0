#include "emulated_gpu/kernels/runtime/block.h"

#include <algorithm>
#include <bit>

#include "emulated_gpu/kernels/runtime/fault.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace wmtp::emulated {

Block& Block::current() {
  static Block block;
  return block;
}

Block::Block() : fibers_(kMostThreads, run_fiber) {}

void Block::set_extent(const dim3& extent) {
  num_threads_ = static_cast<int>(extent.x * extent.y * extent.z);
  for (int i = 0; i < num_threads_; ++i) {
    const auto place = static_cast<unsigned>(i);
    threads_[i].index = {place % extent.x, place / extent.x % extent.y,
                         place / extent.x / extent.y};
  }
}

void Block::begin(void (*body)(const void*), const void* context) {
  body_ = body, context_ = context, order_ = &order();
  num_returned_ = num_at_barrier_ = 0;
  const int num_warps = (num_threads_ + kWarp - 1) / kWarp;
  const int in_last = num_threads_ - (num_warps - 1) * kWarp;
  runnable_warps_ = 0xffffffffu >> (kMostWarps - num_warps);
  runnable_lanes_.fill(0xffffffffu), waiting_lanes_.fill(0), gone_lanes_.fill(0);
  runnable_lanes_[num_warps - 1] = 0xffffffffu >> (kWarp - in_last);
  gone_lanes_[num_warps - 1] = ~runnable_lanes_[num_warps - 1];
  for (int i = 0; i < num_threads_; ++i) threads_[i].state = State::fresh;
}

void Block::run(void (*body)(const void*), const void* context) {
  begin(body, context);
  pick_next();
  Fiber& first = fibers_.take();
  threads_[current_].fiber = &first;
  Fiber::switch_to(host_, first);
}

void Block::run_fiber() {
  Block& block = current();
  block.run_threads(*block.threads_[block.current_].fiber);
}

// A thread that returns hands its stack to the next one: where none waits, all of them run on one,
// without a switch. A fiber that was given back goes on in this loop when a thread takes it again.
void Block::run_threads(Fiber& fiber) {
  for (;;) {
    threads_[current_].state = State::running, threads_[current_].fiber = &fiber;
    body_(context_);
    leave();
    if (!pick_next()) {
      fibers_.give_back(fiber);
      Fiber::switch_to(fiber, host_);
    } else if (threads_[current_].state != State::fresh) {
      fibers_.give_back(fiber);
      Fiber::switch_to(fiber, *threads_[current_].fiber);
    }
  }
}

void Block::stop_running() {
  std::uint32_t& lanes = runnable_lanes_[warp()];
  lanes &= ~(1u << lane());
  if (lanes == 0) runnable_warps_ &= ~(1u << warp());
}

void Block::go_on(int thread) {
  threads_[thread].state = State::running;
  runnable_lanes_[thread / kWarp] |= 1u << thread % kWarp;
  runnable_warps_ |= 1u << thread / kWarp;
}

// False where all threads have returned. Else the next one is current.
bool Block::pick_next() {
  if (runnable_warps_ == 0) {
    if (num_returned_ == num_threads_) return false;
    fault("deadlock: " + waiting_threads());
  }
  const int warp = order_->pick(runnable_warps_);
  current_ = warp * kWarp + order_->pick(runnable_lanes_[warp]);
  threadIdx = threads_[current_].index;
  return true;
}

void Block::wait(State state, Site site) {
  Thread& self = threads_[current_];
  self.state = state, self.site = site;
  stop_running();
  pick_next();
  Thread& next = threads_[current_];
  if (next.state == State::fresh) next.fiber = &fibers_.take();
  Fiber::switch_to(*self.fiber, *next.fiber);
}

void Block::leave() {
  threads_[current_].state = State::returned;
  stop_running();
  ++num_returned_;
  gone_lanes_[warp()] |= 1u << lane();
  for (std::uint32_t left = waiting_lanes_[warp()]; left != 0; left &= left - 1) {
    const Thread& other = of_lane(std::countr_zero(left));
    if ((other.request.mask >> lane() & 1u) == 0) continue;
    fault("returned, while lane " + std::to_string(std::countr_zero(left)) +
          " of its warp waits for it in the " + name_of(other.request.op) + " at " +
          text_of(other.site));
  }
  if (num_at_barrier_ > 0 && num_at_barrier_ + num_returned_ == num_threads_) release_barrier();
}

void Block::release_barrier() {
  num_at_barrier_ = 0;
  for (int i = 0; i < num_threads_; ++i)
    if (threads_[i].state == State::at_barrier) go_on(i);
}

// Returned threads count as arrived, as they do on GPUs since Volta.
void Block::synchronize(Site site) {
  if (num_at_barrier_ == 0) barrier_site_ = site;
  if (!(site == barrier_site_))
    fault("__syncthreads at " + text_of(site) + ", while " + std::to_string(num_at_barrier_) +
          " threads wait in the one at " + text_of(barrier_site_));
  if (num_at_barrier_ + 1 + num_returned_ == num_threads_) return release_barrier();
  ++num_at_barrier_;
  wait(State::at_barrier, site);
}

// "31 threads in the shuffle at a.cu:7 (first 0), 1 thread in __syncthreads at a.cu:9 (first 31)"
std::string Block::waiting_threads() const {
  std::string text;
  for (int first = 0; first < num_threads_; ++first) {
    const auto alike = [&](const Thread& other) {
      const Thread& one = threads_[first];
      return other.state == one.state && other.site == one.site;
    };
    const auto begin = threads_.begin(), end = begin + num_threads_;
    if (threads_[first].state == State::returned || std::any_of(begin, begin + first, alike))
      continue;
    const Thread& one = threads_[first];
    const bool barrier = one.state == State::at_barrier;
    text += (text.empty() ? "" : "; ") + std::to_string(std::count_if(begin, end, alike)) +
            " waiting in the " + (barrier ? "__syncthreads" : name_of(one.request.op)) + " at " +
            text_of(one.site) + ", the first being thread " + std::to_string(first) +
            " of the block";
  }
  return text;
}

}  // namespace wmtp::emulated
