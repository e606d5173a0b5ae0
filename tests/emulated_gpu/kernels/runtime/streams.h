// Streams. The default one does all at once; every other one puts off what it is given until
// somebody waits for it, which is the latest that a GPU may do it: a missing wait shows in numbers.
// What the default stream was given is always done, so no wait for it can be missed here.
// THREADS any.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

using cudaStream_t = struct CUstream_st*;  // as CUDA's headers have it

namespace wmtp::emulated {

// Of LibTorch's number of a stream; 0 is the default one.
inline cudaStream_t stream_of(std::int64_t number) {
  return reinterpret_cast<cudaStream_t>(static_cast<std::intptr_t>(number));
}

// Takes what its thread gives, in place of the streams.
class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void note(cudaStream_t stream, std::function<void()> work) = 0;
};
Recorder*& recorder();  // the calling thread's; null: none

void give(cudaStream_t stream, std::function<void()> work);
std::size_t num_given(cudaStream_t stream);  // pieces of work, from the beginning
void do_until(cudaStream_t stream, std::size_t count);
void do_all(cudaStream_t stream);
void do_all();  // of all streams

}  // namespace wmtp::emulated
