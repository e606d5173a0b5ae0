// The thread that talks to the store: beats, posts of failure, the death of peers.
#include <fmt/format.h>

#include <thread>

#include "wmtp/comm/store_body.h"
#include "wmtp/comm/watch/watchdog_state.h"
#include "wmtp/core/error.h"
#include "wmtp/core/json.h"

namespace wmtp::comm {

void let_others_read(const Failure& cause, const Store& store, int world) {
  constexpr std::chrono::seconds kPatience{5};
  if (!serves(store) || cause.code == static_cast<int>(ExitCode::retry)) return;
  const auto deadline = Clock::now() + kPatience;
  try {
    for (int rank = 1; rank < world; ++rank)
      while (rank != cause.rank && !store.has(seen_key(rank)) && Clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
  } catch (const Error&) {  // it is gone already
  }
}

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
    let_others_read(
        remember(decode_post(beat_store.set_if_absent(kFailureKey, encode(*outgoing))).failure),
        beat_store, options.world);
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
    const Post ours{failure, options.rank};
    leave_once(decode_post(beat_store.set_if_absent(kFailureKey, encode(ours))).failure);
    return true;
  }
  if (const auto text = beat_store.try_get(kFailureKey)) {
    const Post post = decode_post(*text);
    if (post.by == options.rank)
      return false;  // our own report: the main thread is leaving already
    beat_store.set(seen_key(options.rank), "");
    let_others_read(post.failure, beat_store, options.world);
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
      changed.wait_for(lock, kWatchPoll,
                       [&] { return stop || mine.goodbye || to_post.has_value(); });
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

}  // namespace wmtp::comm
