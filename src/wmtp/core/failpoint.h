// Named places where a test can make the program fail on purpose. Known names and what each can do
// stand in failpoint_points.cpp. Without WMTP_FAILPOINTS (releases) all of this compiles to
// nothing.
//
//   if (int error = failpoint::error_number(failpoint::pass("save.shard.fsync"))) fail_with(error);
//
// Spec, several joined by ';':
// name[:rank=R][:nth=N|N+]=kill|stop|eio|enospc|short|sleep[:MS]|skip|damage
//   no rank = every rank; nth=N = once, at the N-th passage (default 1); N+ = from then on.
#pragma once
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace wmtp::failpoint {

// kill (SIGKILL to itself), stop (SIGSTOP) and sleep happen inside pass(); the rest is for the
// caller: eio, enospc: the call fails so. short_write: half of the bytes, then EIO. skip: leave the
// guarded step out (the control of a fault test). damage: a NaN, a flipped bit or a skipped
// collective.
enum class Action : std::uint8_t {
  none,
  kill,
  stop,
  eio,
  enospc,
  short_write,
  sleep,
  skip,
  damage
};

struct Options {
  std::string spec;  // empty: nothing fails
  int rank = 0;      // of this process
  std::filesystem::path
      log_path;  // "name rank passage action" per hit, before it acts; empty: none
};

constexpr int error_number(Action action) {
  if (action == Action::enospc) return ENOSPC;
  return action == Action::eio || action == Action::short_write ? EIO : 0;
}

#ifdef WMTP_FAILPOINTS

inline constexpr bool kCompiledIn = true;

struct Point {
  std::string_view name;
  std::uint16_t actions;  // bit 1 << Action
};
std::span<const Point> points();  // in the order of their names
std::string_view name_of(Action action);

// Arms the process; what was armed before is forgotten and passages count from 1 again. Throws
// ErrorKind::config for a bad spec, an unknown name (with the list of all) or an action the point
// cannot do.
void configure(const Options& options);

// Marks one passage of `point` and says what the caller has to do. THREADS: any.
// REQUIRES a name of points().
Action pass(std::string_view point);

#else

inline constexpr bool kCompiledIn = false;
inline void configure(const Options&) {}
constexpr Action pass(std::string_view) {
  return Action::none;
}

#endif

}  // namespace wmtp::failpoint
