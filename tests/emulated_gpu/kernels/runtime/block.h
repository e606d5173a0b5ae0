// The threads of one block: each runs until it waits or returns, then the next of those that can.
// Which one is `Order`'s choice, first of the warps, then of the warp's lanes; a thread that
// completes a barrier or an operation of its warp goes on itself.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "emulated/launch.h"
#include "emulated/threads.h"
#include "emulated_gpu/kernels/runtime/fiber.h"
#include "emulated_gpu/kernels/runtime/order.h"

namespace wmtp::emulated {

inline constexpr int kWarp = 32, kMostThreads = 1024, kMostWarps = kMostThreads / kWarp;

class Block {
 public:
  static Block& current();  // the only one: launches wait for each other

  // For the blocks to come; REQUIRES at most kMostThreads.
  void set_extent(const dim3& extent);
  // Runs body(context) in every thread of the block blockIdx.
  void run(void (*body)(const void*), const void* context);

  // What the threads themselves call.
  void synchronize(Site site);
  std::uint64_t exchange(const WarpRequest& request, Site site);

 private:
  enum class State { fresh, running, at_barrier, in_warp_op, returned };
  struct Thread {
    State state;
    Fiber* fiber;
    uint3 index;
    Site site;            // where it waits
    WarpRequest request;  // of in_warp_op
    std::uint64_t result;
  };

  Block();
  static void run_fiber();
  void run_threads(Fiber& fiber);
  void begin(void (*body)(const void*), const void* context);
  bool pick_next();
  void wait(State state, Site site);
  void leave();  // the current thread has returned
  void stop_running();
  void go_on(int thread);
  void release_barrier();
  [[noreturn]] void refuse(const WarpRequest& request, Site site) const;
  bool all_have_come(const WarpRequest& request, Site site) const;
  void complete(unsigned mask);
  std::string waiting_threads() const;

  int warp() const { return current_ / kWarp; }
  int lane() const { return current_ % kWarp; }
  Thread& of_lane(int lane) { return threads_[warp() * kWarp + lane]; }
  const Thread& of_lane(int lane) const { return threads_[warp() * kWarp + lane]; }

  Order* order_ = nullptr;
  void (*body_)(const void*) = nullptr;
  const void* context_ = nullptr;
  int num_threads_ = 0, num_returned_ = 0, num_at_barrier_ = 0, current_ = 0;
  Site barrier_site_;
  std::uint32_t runnable_warps_ = 0;
  // By warp: lanes that can go on, that wait in an operation of the warp, that have returned or
  // never were.
  std::array<std::uint32_t, kMostWarps> runnable_lanes_{}, waiting_lanes_{}, gone_lanes_{};
  std::array<Thread, kMostThreads> threads_{};
  Fiber host_;
  FiberPool fibers_;
};

const char* name_of(WarpOp op);

}  // namespace wmtp::emulated
