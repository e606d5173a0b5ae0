// A second stream of a GPU, for passes over memory beside the products of the first. On a CPU there
// is none: what is run on it is done at once, and every wait is over. THREADS: one.
#pragma once
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <functional>
#include <optional>

#include "wmtp/tensor/tensor.h"

namespace wmtp {

class SideStream {
 public:
  // A point of the side stream that others can wait for; used again and again.
  class Mark {
   public:
    // The current STREAM goes on behind the point that was set last; the host goes on at once.
    void wait() const;

   private:
    friend class SideStream;
    std::optional<c10::Event> event_;  // absent: nothing was ever set, or there is no stream
  };

  explicit SideStream(c10::Device device);

  bool beside() const { return stream_.has_value(); }  // false: all is done at once
  // STREAM: what `work` enqueues runs behind all that the current stream has been given by now.
  // What it reads and writes has to keep its memory until the current stream has waited for a mark
  // behind it: the allocator hands memory that was freed to the next taker of the current stream,
  // without a look at the other one.
  void run(const std::function<void()>& work);
  void set(Mark& mark);  // behind what was run so far

 private:
  std::optional<c10::Stream> stream_;
  std::optional<c10::Event> given_;  // what the current stream had been given
};

}  // namespace wmtp
