// Stacks of their own on which the threads of a block run, and the switch from one to another.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

namespace wmtp::emulated {

// A suspended flow of control. One made without a stack stands for the caller of the first switch.
class Fiber {
 public:
  Fiber();
  // `entry` runs on the stack at the first switch to the fiber; it must not return.
  Fiber(std::byte* stack, std::size_t bytes, void (*entry)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Suspends `from`, which must be the one that runs. Returns when another one switches back to it.
  static void switch_to(Fiber& from, Fiber& to);

 private:
  void* context_;  // on x86-64 the place on its stack, elsewhere a ucontext_t
};

// As many fibers as a block can have threads, made when they are first taken. Below each stack is a
// page that cannot be touched: what overflows ends there.
class FiberPool {
 public:
  FiberPool(std::size_t most, void (*entry)());
  ~FiberPool();
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  Fiber& take();
  void give_back(Fiber& fiber);

 private:
  Fiber& make();

  void (*const entry_)();
  const std::size_t bytes_;
  std::byte* const memory_;
  std::vector<std::unique_ptr<Fiber>> all_;
  std::vector<Fiber*> free_;
};

}  // namespace wmtp::emulated
