// Ends that no catch of ours sees: LibTorch's initialisers without memory, a library that calls
// exit() when it gets no threads. They end with the code of that fact and one line that names the
// limit, instead of 134 or 1.
#pragma once

namespace wmtp::cli {

// From here on std::terminate for want of threads or memory ends with 78. Needs no initialised
// library.
void speak_before_terminate();

// One in main(): while it lives nobody else may end the program by exit().
class OnlyMainExits {
 public:
  OnlyMainExits();
  ~OnlyMainExits();
  OnlyMainExits(const OnlyMainExits&) = delete;
  OnlyMainExits& operator=(const OnlyMainExits&) = delete;
};

}  // namespace wmtp::cli
