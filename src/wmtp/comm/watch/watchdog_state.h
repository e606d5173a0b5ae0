// Private to comm/: what the watchdog's two threads share, and the post of failure.
#pragma once
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "wmtp/comm/watch/heartbeat.h"
#include "wmtp/comm/watch/rank_state.h"
#include "wmtp/comm/watch/watchdog.h"
#include "wmtp/core/time.h"

namespace wmtp::comm {

inline constexpr const char* kFailureKey = "failure";
// Left by a rank that has read the post and leaves for it.
inline std::string seen_key(int rank) {
  return "failure-seen/" + std::to_string(rank);
}
inline constexpr std::chrono::milliseconds kWatchPoll{
    250};  // how often posts and deadlines are looked at
inline constexpr std::chrono::milliseconds kPause{
    2'000};  // a longer gap between polls: we were stopped

struct Post {
  Failure failure;
  int by = 0;
};
// BLOCKS where the store lives in this process, and would go with it: until the other ranks have
// read the post, for a while. Of 75 they need not know, it is their own word for a store that is
// gone.
void let_others_read(const Failure& cause, const Store& store, int world);
std::string encode(const Post& post);
Post decode_post(const std::string& text);

// Shared with the beating thread, which may outlive the watchdog inside a store call that never
// returns.
struct Watchdog::State {
  explicit State(WatchdogOptions given) : options(std::move(given)) {
    if (options.world == 1) return;
    beat_store = options.store.clone();
    post_store = options.store.clone();
    beats = std::make_unique<Heartbeats>(beat_store, options.rank);
  }

  WatchdogOptions options;
  Store beat_store, post_store;
  std::unique_ptr<Heartbeats> beats;  // used by the beating thread only

  mutable std::mutex mutex;
  std::condition_variable changed;
  RankState mine;
  std::chrono::milliseconds limit{0};
  Clock::time_point deadline = Clock::time_point::max();
  std::chrono::milliseconds grace{0};  // of a stop on request, which ends at:
  Clock::time_point stop_deadline = Clock::time_point::max();
  std::map<std::string, std::shared_ptr<const CollectiveLog>> logs;
  std::map<int, std::pair<RankState, Clock::time_point>> seen;  // peer -> state, when it changed
  std::optional<Post> to_post;
  std::optional<Failure> standing;  // post, as far as this process knows
  bool stop = false, beating_done = false, left = false;
  Clock::time_point last_store_answer = Clock::now();

  bool said_goodbye() const {
    const std::lock_guard lock(mutex);
    return mine.goodbye;
  }
  RankState snapshot() {  // REQUIRES mutex
    for (const auto& [name, log] : logs) mine.groups[name] = log->last();
    return mine;
  }
  HangReport report(const std::string& cause);
  void write_hang_file(const HangReport& report, std::int64_t step) const;
  Failure remember(const Failure& posted);  // the first one; returns it
  void leave_once(Failure failure);         // with the code of the standing post, if any

  void deadline_loop();
  void expire(std::unique_lock<std::mutex>& lock);
  void give_up_stop(std::unique_lock<std::mutex>& lock);
  void post_before_leaving(const Failure& failure, std::unique_lock<std::mutex>& lock);
  void beat_loop();
  void exchange_beats();
  bool handle_posts();
  std::optional<int> find_dead();
};

}  // namespace wmtp::comm
