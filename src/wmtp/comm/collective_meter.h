// What the collectives of a communicator moved and how long was waited for them, by kind. Counting
// costs four looks at the clock per collective; on a GPU times are taken with events on the stream
// and only where they are asked for. THREADS: all functions may be called from any thread.
#pragma once
#include <array>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "wmtp/tensor/moment.h"

namespace wmtp::comm {

enum class CollectiveKind { all_gather, reduce_scatter, all_reduce, broadcast, other };
inline constexpr std::size_t kNumCollectiveKinds = 5;
std::string_view name_of(CollectiveKind kind);  // all_gather, ...

// Of one kind; `other`: gathers to one rank, and barriers. What moves nothing is not counted:
// collectives of empty tensors, and all of a group of one process.
struct CollectiveSums {
  std::int64_t calls = 0;
  // Payload: the whole result of an all-gather or gather, the whole input of a reduce-scatter, the
  // tensor of an all-reduce or broadcast, 0 of a barrier; the same on all W ranks, whatever the
  // backend makes of it. What each rank sends over a ring is (W - 1) / W of that, of an all-reduce
  // twice as much.
  std::int64_t bytes = 0;
  // In the call that starts it, of CPU tensors: what the rank does itself, waiting for nobody.
  double starting_s = 0;
  // In the first Work::wait(): CPU tensors: the host was blocked; CUDA tensors: the stream that
  // waits had nothing else to do (with Gloo too, where the host is blocked besides).
  double waited_s = 0;
  // From the start to the end: on a CPU over Gloo to when the result was there, elsewhere to the
  // end of the first wait(), so that what ran meanwhile is in it. Collectives overlap: a sum of
  // durations may exceed the time that has passed.
  double duration_s = 0;
};

// The moments of one collective that was waited for.
struct CollectiveTimes {
  CollectiveKind kind = CollectiveKind::other;
  Moment started, wait_begun, wait_ended, ended;
};

struct CollectiveFigures {
  std::array<CollectiveSums, kNumCollectiveKinds> kinds{};
  std::vector<CollectiveTimes> open;  // the stream has not come to them yet

  const CollectiveSums& of(CollectiveKind kind) const {
    return kinds[static_cast<std::size_t>(kind)];
  }
  double waited_s() const;  // for collectives of all kinds
  double starting_s() const;
  void add(const CollectiveFigures& other);
  // Adds to the sums what the stream has come to meanwhile; false while something is open.
  bool settle();
};

class CollectiveMeter {
 public:
  explicit CollectiveMeter(c10::Device device) : device_(device) {}

  // Whether collectives of CUDA tensors that are started or waited for from now on are timed (at
  // first not). Those of CPU tensors always are.
  void time_streams(bool on);
  CollectiveFigures take();  // since the last take

  // For Communicator. Now, or none where no times are taken.
  Moment now() const;
  void count(CollectiveKind kind, std::int64_t bytes, double starting_s = 0);
  // Without both ends of the wait nothing is added.
  void add(CollectiveTimes times);

 private:
  c10::Device device_;
  mutable std::mutex mutex_;
  bool timed_ = false;
  CollectiveFigures figures_;
};

}  // namespace wmtp::comm
