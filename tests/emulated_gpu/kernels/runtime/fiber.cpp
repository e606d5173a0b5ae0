#include "emulated_gpu/kernels/runtime/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace wmtp::emulated {

#ifdef __x86_64__
// swapcontext makes a system call for the signal mask, which is most of its time. This one saves
// what the calling convention has a function keep, and the place on the stack.
asm(R"(
.text
.p2align 4
.type wmtp_emulated_switch, @function
wmtp_emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size wmtp_emulated_switch, .-wmtp_emulated_switch
)");
extern "C" __attribute__((visibility("hidden"))) void wmtp_emulated_switch(void** saved, void* to);

Fiber::Fiber() : context_(nullptr) {}
Fiber::~Fiber() = default;

Fiber::Fiber(std::byte* stack, std::size_t bytes, void (*entry)()) {
  // A function expects its return address 8 bytes below a multiple of 16: entry's would lie behind
  // its own address, which `ret` takes.
  constexpr std::size_t kSaved = 6;
  const std::uintptr_t top =
      (reinterpret_cast<std::uintptr_t>(stack) + bytes) & ~std::uintptr_t{15};
  auto* slots = reinterpret_cast<void**>(top - 16);
  slots[0] = reinterpret_cast<void*>(entry);
  slots[1] = nullptr;
  for (std::size_t i = 1; i <= kSaved; ++i) *(slots - i) = nullptr;
  context_ = slots - kSaved;
}

void Fiber::switch_to(Fiber& from, Fiber& to) {
  wmtp_emulated_switch(&from.context_, to.context_);
}
#else
namespace {

ucontext_t* state_of(void* context) {
  return static_cast<ucontext_t*>(context);
}

}  // namespace

Fiber::Fiber() : context_(new ucontext_t) {}
Fiber::~Fiber() {
  delete state_of(context_);
}

Fiber::Fiber(std::byte* stack, std::size_t bytes, void (*entry)()) : Fiber() {
  ucontext_t* state = state_of(context_);
  getcontext(state);
  state->uc_stack.ss_sp = stack;
  state->uc_stack.ss_size = bytes;
  state->uc_link = nullptr;
  makecontext(state, entry, 0);
}

void Fiber::switch_to(Fiber& from, Fiber& to) {
  swapcontext(state_of(from.context_), state_of(to.context_));
}
#endif

namespace {

constexpr std::size_t kStackBytes = 64 * 1024;

std::size_t page_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::byte* reserve(std::size_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::fprintf(stderr, "emulated GPU: no %zu bytes of address space for stacks\n", bytes);
    std::abort();
  }
  return static_cast<std::byte*>(memory);
}

}  // namespace

FiberPool::FiberPool(std::size_t most, void (*entry)())
    : entry_(entry), bytes_(most * (kStackBytes + page_bytes())), memory_(reserve(bytes_)) {}

FiberPool::~FiberPool() {
  munmap(memory_, bytes_);
}

Fiber& FiberPool::take() {
  if (free_.empty()) return make();
  Fiber& fiber = *free_.back();
  free_.pop_back();
  return fiber;
}

void FiberPool::give_back(Fiber& fiber) {
  free_.push_back(&fiber);
}

Fiber& FiberPool::make() {
  const std::size_t guard = page_bytes(), index = all_.size();
  std::byte* stack = memory_ + index * (kStackBytes + guard) + guard;
  if (stack + kStackBytes > memory_ + bytes_ ||
      mprotect(stack, kStackBytes, PROT_READ | PROT_WRITE) != 0) {
    std::fprintf(stderr, "emulated GPU: no memory for the stack of a %zuth thread\n", index + 1);
    std::abort();
  }
  // Tops at different places of their pages: at the same one all would share few lines of the
  // cache.
  const std::size_t shift = index * 192 % 4096;
  all_.push_back(std::make_unique<Fiber>(stack, kStackBytes - shift, entry_));
  return *all_.back();
}

}  // namespace wmtp::emulated
