// Signs of life: each rank leaves a short text beside the store, over and over. In a file store
// they go to a file of fixed slots, since c10d's file store only ever grows. THREADS: one thread
// per object.
#pragma once
#include <optional>
#include <string>

#include "wmtp/comm/store.h"
#include "wmtp/core/unique_fd.h"

namespace wmtp::comm {

class Heartbeats {
 public:
  static constexpr std::size_t kMaxTextBytes = 1000;

  Heartbeats(Store store, int rank);

  void leave(const std::string& text);  // cut to kMaxTextBytes
  std::optional<std::string> read(int rank) const;

 private:
  Store store_;
  int rank_;
  UniqueFd slots_;  // file stores only
};

}  // namespace wmtp::comm
