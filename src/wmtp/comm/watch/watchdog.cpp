#include "wmtp/comm/watch/watchdog.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "wmtp/comm/watch/stack_dump.h"
#include "wmtp/comm/watch/watchdog_state.h"
#include "wmtp/core/error.h"
#include "wmtp/core/log.h"

// Why two threads. A rank whose peer has died waits in a collective that nothing can wake, so the
// process must be ended from another thread, by _exit. That thread must not be able to wait itself:
// the store lives in rank 0 and a call to it may never return. So the deadline thread touches
// memory, clocks and, when it is about to leave, the hang file and stderr; everything that goes
// over the network is done by the beating thread (watchdog_beat.cpp), which is detached and shares
// State by reference count because it may outlive the watchdog inside a store call. The deadline
// thread also watches the beating one: a store that has not answered for `dead_after` ends the
// process.
//
// The training thread is never made to wait for the network here: enter(), progress() and
// set_step() take the mutex, and no store call is made under it. (post() and posted() do block for
// one: they are for a thread that has failed already.) The hang file is written under the mutex,
// when the process leaves anyway.
//
// Why in this order at the end of a limit: the report names the rank that is behind, the beating
// thread gets kPostPatience to post it, so that all ranks leave for one cause, and the stacks are
// dumped before the process ends whether the post got through or not. The first post of a run
// stands: a rank that hears of it leaves with that code, since a peer that is gone for it is no new
// failure. Time during which this process was itself stopped (a gap above kPause) does not count
// against anybody.

namespace wmtp::comm {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kPostPatience{300};    // an expiring rank waits this long for the store
constexpr milliseconds kReadPatience{6'000};  // the same where the others have to read the post

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

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

Failure Watchdog::State::remember(const Failure& posted) {
  const std::lock_guard lock(mutex);
  if (!standing) standing = posted;
  return *standing;
}

void Watchdog::State::leave_once(Failure failure) {
  {
    const std::lock_guard lock(mutex);
    if (left || stop) return;
    left = true;
    stop = true;
    // One code for all; of one and the same code, each says what it saw itself.
    if (standing && standing->code != failure.code) failure = *standing;
  }
  changed.notify_all();
  if (options.leave) options.leave(failure);
}

void Watchdog::State::deadline_loop() {
  std::unique_lock lock(mutex);
  auto last_look = Clock::now();
  while (!stop) {
    changed.wait_until(lock, std::min({deadline, stop_deadline, Clock::now() + kWatchPoll}));
    const auto now = Clock::now();
    const auto gap = now - last_look;
    last_look = now;
    if (stop) return;
    if (gap > kPause) {  // we were stopped ourselves: that time does not count
      if (deadline != Clock::time_point::max()) deadline += gap;
      last_store_answer += gap;
    }
    if (now >= stop_deadline) return give_up_stop(lock);
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
  post_before_leaving(failure, lock);
  lock.unlock();
  dump_stacks(STDERR_FILENO);
  leave_once(failure);
}

void Watchdog::State::post_before_leaving(const Failure& failure,
                                          std::unique_lock<std::mutex>& lock) {
  if (options.world == 1) return;
  to_post = Post{failure, options.rank};
  changed.notify_all();
  const bool own_word = failure.code == static_cast<int>(ExitCode::retry);
  changed.wait_for(lock, own_word ? kPostPatience : kReadPatience,
                   [&] { return !to_post || stop; });
}

// No hang, so neither a report of one nor stacks: the save is slower than the time there was.
void Watchdog::State::give_up_stop(std::unique_lock<std::mutex>& lock) {
  const Failure failure{
      options.rank, static_cast<int>(ExitCode::preempted_unsaved),
      fmt::format("the stop at step {} was not saved within runtime.grace_s ({:.0f} s); "
                  "the checkpoint before it stays",
                  mine.step, seconds(grace))};
  post_before_leaving(failure, lock);
  lock.unlock();
  leave_once(failure);
}

Watchdog::Watchdog(WatchdogOptions options) : state_(std::make_shared<State>(std::move(options))) {
  prepare_stack_dump();
  if (state_->options.world > 1) std::thread([state = state_] { state->beat_loop(); }).detach();
  try {
    deadline_thread_ = std::thread([state = state_] { state->deadline_loop(); });
  } catch (...) {  // no more threads to be had: the other one goes too
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->changed.notify_all();
    throw;
  }
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

void Watchdog::limit_stop(milliseconds grace) {
  const std::lock_guard lock(state_->mutex);
  const bool running = state_->stop_deadline != Clock::time_point::max();
  if (running && grace.count() > 0) return;
  state_->grace = grace;
  state_->stop_deadline = grace.count() > 0 ? Clock::now() + grace : Clock::time_point::max();
  state_->changed.notify_all();
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
  if (state_->options.world == 1) return state_->remember(mine);
  try {
    const std::string text =
        state_->post_store.set_if_absent(kFailureKey, encode(Post{mine, state_->options.rank}));
    return state_->remember(decode_post(text).failure);
  } catch (const Error&) {
    return state_->remember(mine);  // nobody left to tell
  }
}

std::optional<Failure> Watchdog::posted(milliseconds patience) {
  if (state_->options.world == 1) return std::nullopt;
  const auto until = Clock::now() + patience;
  try {
    do {
      if (const auto text = state_->post_store.try_get(kFailureKey)) {
        state_->post_store.set(seen_key(state_->options.rank), "");
        return state_->remember(decode_post(*text).failure);
      }
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
