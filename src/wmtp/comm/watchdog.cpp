#include "wmtp/comm/watchdog.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "wmtp/comm/heartbeat.h"
#include "wmtp/comm/rank_state.h"
#include "wmtp/core/error.h"
#include "wmtp/core/json.h"
#include "wmtp/core/log.h"
#include "wmtp/core/time.h"

namespace wmtp::comm {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kPoll{250};          // how often posts and deadlines are looked at
constexpr milliseconds kPostPatience{300};  // an expiring rank waits this long for the store
constexpr milliseconds kPause{2'000};  // a gap between polls that means: the process was stopped
constexpr const char* kFailureKey = "failure";

struct Post {
  Failure failure;
  int by = 0;
};

std::string encode(const Post& post) {
  return Json{{"rank", post.failure.rank},
              {"code", post.failure.code},
              {"message", post.failure.message.substr(0, 4000)},
              {"by", post.by}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Post decode_post(const std::string& text) {
  const Json json = parse_json(text, "a post of failure", {64 << 10, 4});
  return {{json.at("rank").get<int>(), json.at("code").get<int>(),
           json.at("message").get<std::string>()},
          json.at("by").get<int>()};
}

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

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
  milliseconds limit{0};
  Clock::time_point deadline = Clock::time_point::max();
  std::map<std::string, std::shared_ptr<const CollectiveLog>> logs;
  std::map<int, std::pair<RankState, Clock::time_point>> seen;  // peer -> state, when it changed
  std::optional<Post> to_post;
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
  void leave_once(const Failure& failure);

  void deadline_loop();
  void expire(std::unique_lock<std::mutex>& lock);
  void beat_loop();
  void exchange_beats();
  bool handle_posts();
  std::optional<int> find_dead();
};

HangReport Watchdog::State::report(const std::string& cause) {
  HangFacts facts{cause, options.rank, 2.5 * seconds(options.beat), {}};
  facts.peers[options.rank] = {snapshot(), 0};
  for (const auto& [rank, entry] : seen)
    facts.peers[rank] = {entry.first, seconds(Clock::now() - entry.second)};
  return report_hang(facts);
}

void Watchdog::State::write_hang_file(const HangReport& report, std::int64_t step) const {
  if (options.run_dir.empty()) return;
  const auto path = options.run_dir / fmt::format("hang-{}.json", step);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return;  // another rank was faster, or there is no folder: the message says it all
  if (::write(fd, report.json.data(), report.json.size()) < 0)
    log::warn("comm", "cannot write {}", path.string());
  ::close(fd);
}

void Watchdog::State::leave_once(const Failure& failure) {
  {
    const std::lock_guard lock(mutex);
    if (left || stop) return;
    left = true;
    stop = true;
  }
  changed.notify_all();
  if (options.leave) options.leave(failure);
}

void Watchdog::State::deadline_loop() {
  std::unique_lock lock(mutex);
  auto last_look = Clock::now();
  while (!stop) {
    changed.wait_until(lock, std::min(deadline, Clock::now() + kPoll));
    const auto now = Clock::now();
    const auto gap = now - last_look;
    last_look = now;
    if (stop) return;
    if (gap > kPause) {  // we were stopped ourselves: that time does not count
      if (deadline != Clock::time_point::max()) deadline += gap;
      last_store_answer += gap;
    }
    if (now >= deadline) return expire(lock);
    if (options.world > 1 && !mine.goodbye && now - last_store_answer > options.dead_after) {
      const HangReport found = report(fmt::format("the run's store has not answered for {:.1f} s",
                                                  seconds(options.dead_after)));
      write_hang_file(found, mine.step);
      lock.unlock();
      return leave_once({0, 75, found.headline});
    }
  }
}

void Watchdog::State::expire(std::unique_lock<std::mutex>& lock) {
  const HangReport found = report(fmt::format("no progress in section '{}' (step {}) for {:.1f} s",
                                              mine.section, mine.step, seconds(limit)));
  const bool root_silent =
      std::find(found.behind.begin(), found.behind.end(), 0) != found.behind.end();
  if (options.rank == 0 || root_silent) write_hang_file(found, mine.step);
  const Failure failure{found.behind.empty() ? options.rank : found.behind.front(), 75,
                        found.headline};
  if (options.world > 1) {
    to_post = Post{failure, options.rank};
    changed.notify_all();
    changed.wait_for(lock, kPostPatience, [&] { return !to_post || stop; });
  }
  lock.unlock();
  leave_once(failure);
}

void Watchdog::State::exchange_beats() {
  RankState state;
  {
    const std::lock_guard lock(mutex);
    ++mine.beat;
    state = snapshot();
  }
  beats->leave(comm::encode(state));
  const int watched = options.rank == 0 ? options.world : 1;  // the others watch rank 0 only
  for (int rank = 0; rank < watched; ++rank) {
    if (rank == options.rank) continue;
    const auto text = beats->read(rank);
    const auto peer = text ? decode_rank_state(*text) : std::nullopt;
    const std::lock_guard lock(mutex);
    auto& entry = seen.try_emplace(rank, RankState{}, Clock::now()).first->second;
    if (peer && peer->beat != entry.first.beat) entry = {*peer, Clock::now()};
  }
}

std::optional<int> Watchdog::State::find_dead() {
  const std::lock_guard lock(mutex);
  for (const auto& [rank, entry] : seen)
    if (!entry.first.goodbye && Clock::now() - entry.second > options.dead_after) return rank;
  return std::nullopt;
}

// True when the process is to end.
bool Watchdog::State::handle_posts() {
  std::optional<Post> outgoing;
  {
    const std::lock_guard lock(mutex);
    outgoing = to_post;
  }
  if (outgoing) {
    beat_store.set_if_absent(kFailureKey, encode(*outgoing));
    const std::lock_guard lock(mutex);
    to_post.reset();
    changed.notify_all();
    return true;  // the deadline thread leaves
  }
  if (const auto dead = find_dead()) {
    std::unique_lock lock(mutex);
    const HangReport found = report(fmt::format("rank {} is gone", *dead));
    write_hang_file(found, mine.step);
    lock.unlock();
    const Failure failure{*dead, 75, found.headline};
    beat_store.set_if_absent(kFailureKey, encode(Post{failure, options.rank}));
    leave_once(failure);
    return true;
  }
  if (const auto text = beat_store.try_get(kFailureKey)) {
    const Post post = decode_post(*text);
    if (post.by == options.rank) return false;  // ours: the main thread is on its way out
    leave_once(post.failure);
    return true;
  }
  return false;
}

void Watchdog::State::beat_loop() {
  auto next_beat = Clock::now();
  auto last_look = Clock::now();
  while (true) {
    {
      std::unique_lock lock(mutex);
      const auto gap = Clock::now() - last_look;
      if (gap > kPause)
        for (auto& [rank, entry] : seen) entry.second += gap;
      changed.wait_for(lock, kPoll, [&] { return stop || mine.goodbye || to_post.has_value(); });
      last_look = Clock::now();
      if (stop) break;
    }
    try {
      if (Clock::now() >= next_beat || said_goodbye()) {
        exchange_beats();
        next_beat = Clock::now() + options.beat;
      }
      if (said_goodbye()) break;
      if (handle_posts()) break;
      const std::lock_guard lock(mutex);
      last_store_answer = Clock::now();
    } catch (const std::exception& error) {
      std::unique_lock lock(mutex);
      if (mine.goodbye || stop) break;
      lock.unlock();
      leave_once({0, 75, fmt::format("the run's store is gone: {}", error.what())});
      break;
    }
  }
  const std::lock_guard lock(mutex);
  beating_done = true;
  changed.notify_all();
}

Watchdog::Watchdog(WatchdogOptions options) : state_(std::make_shared<State>(std::move(options))) {
  deadline_thread_ = std::thread([state = state_] { state->deadline_loop(); });
  if (state_->options.world > 1) std::thread([state = state_] { state->beat_loop(); }).detach();
}

Watchdog::~Watchdog() {
  std::unique_lock lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
  if (state_->options.world > 1)
    state_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return state_->beating_done; });
  lock.unlock();
  deadline_thread_.join();
}

void Watchdog::enter(const std::string& section, milliseconds limit) {
  const std::lock_guard lock(state_->mutex);
  state_->mine.section = section;
  state_->limit = limit;
  state_->deadline = limit.count() > 0 ? Clock::now() + limit : Clock::time_point::max();
  state_->changed.notify_all();
}

void Watchdog::progress() {
  const std::lock_guard lock(state_->mutex);
  if (state_->limit.count() > 0) state_->deadline = Clock::now() + state_->limit;
}

void Watchdog::set_step(std::int64_t step) {
  const std::lock_guard lock(state_->mutex);
  state_->mine.step = step;
}

void Watchdog::observe(const std::string& group, std::shared_ptr<const CollectiveLog> log) {
  const std::lock_guard lock(state_->mutex);
  state_->logs[group] = std::move(log);
}

Failure Watchdog::post(const Failure& mine) {
  if (state_->options.world == 1) return mine;
  try {
    return decode_post(state_->post_store.set_if_absent(kFailureKey,
                                                        encode(Post{mine, state_->options.rank})))
        .failure;
  } catch (const Error&) {
    return mine;  // nobody left to tell
  }
}

std::optional<Failure> Watchdog::posted(milliseconds patience) {
  if (state_->options.world == 1) return std::nullopt;
  const auto until = Clock::now() + patience;
  try {
    do {
      if (const auto text = state_->post_store.try_get(kFailureKey))
        return decode_post(*text).failure;
      std::this_thread::sleep_for(milliseconds(20));
    } while (Clock::now() < until);
  } catch (const std::exception&) {  // the store went with rank 0
  }
  return std::nullopt;
}

void Watchdog::say_goodbye() {
  std::unique_lock lock(state_->mutex);
  state_->mine.goodbye = true;
  state_->changed.notify_all();
  if (state_->options.world > 1)
    state_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return state_->beating_done; });
}

void StepLimit::add(double seconds) {
  constexpr std::size_t kWindow = 100;
  if (recent_s_.size() < kWindow)
    recent_s_.push_back(seconds);
  else
    recent_s_[next_++ % kWindow] = seconds;
}

double StepLimit::limit_s() const {
  const double longest =
      recent_s_.empty() ? 0 : *std::max_element(recent_s_.begin(), recent_s_.end());
  return std::max(floor_s_, 5 * longest);
}

}  // namespace wmtp::comm
