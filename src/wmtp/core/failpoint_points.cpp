// The table of failpoints: a new one is one line here, in the order of the names.
#include <array>

#include "wmtp/core/failpoint.h"

#ifdef WMTP_FAILPOINTS
namespace wmtp::failpoint {
namespace {

template <class... Actions>
constexpr std::uint16_t set_of(Actions... actions) {
  return static_cast<std::uint16_t>((0 | ... | (1 << static_cast<int>(actions))));
}

template <class... Actions>
constexpr std::uint16_t with(std::uint16_t set, Actions... actions) {
  return static_cast<std::uint16_t>(set | set_of(actions...));
}

// What really happens at a point: pass() itself pauses or kills at each; the rest is up to the
// code around it.
constexpr auto kPause = set_of(Action::kill, Action::stop, Action::sleep);
constexpr auto kStep = with(kPause, Action::skip);
constexpr auto kCall = with(kPause, Action::eio, Action::enospc);
constexpr auto kGuardedCall = with(kCall, Action::skip);
constexpr auto kWrite = with(kCall, Action::short_write);
constexpr auto kGuardedWrite = with(kWrite, Action::skip);
constexpr auto kNumber = with(kPause, Action::damage);
constexpr auto kOrder = with(kNumber, Action::skip);

constexpr std::array kPoints{
    Point{"cache.rename.before", kGuardedCall},
    Point{"cache.write.half", kWrite},
    Point{"comm.agree.post", kStep},
    Point{"comm.collective.before", kOrder},
    Point{"comm.hello", kStep},
    Point{"data.batch.made", kPause},
    Point{"doctor.clock", kNumber},
    Point{"doctor.versions", kNumber},
    Point{"export.rename.before", kGuardedCall},
    Point{"index.rename.before", kGuardedCall},
    Point{"index.write.half", kWrite},
    Point{"load.box.read", kGuardedCall},
    Point{"load.manifest.read", kCall},
    Point{"load.quarantine.rename", kGuardedCall},
    Point{"load.scan.begin", kCall},
    Point{"lock.break", kPause},
    Point{"lock.write", kCall},
    Point{"retain.files.half", kCall},
    Point{"retain.manifest.gone", kGuardedCall},
    Point{"save.dirs.fsync", kGuardedCall},
    Point{"save.manifest.fsync", kGuardedCall},
    Point{"save.manifest.half", kGuardedWrite},
    Point{"save.parent.fsync", kGuardedCall},
    Point{"save.pointer.rename", kGuardedCall},
    Point{"save.rename.after", kCall},
    Point{"save.rename.before", kGuardedCall},
    Point{"save.shard.closed", kCall},
    Point{"save.shard.fsync", kGuardedCall},
    Point{"save.shard.half", kGuardedWrite},
    Point{"save.shard.open", kGuardedCall},
    Point{"save.shard.written", kCall},
    Point{"save.stage.begin", kGuardedCall},
    Point{"save.stage.memory", kCall},
    Point{"save.state.half", kGuardedWrite},
    Point{"save.tmpdir.made", kCall},
    Point{"save.vote.post", kStep},
    Point{"save.vote.read", kPause},
    Point{"step.apply.before", kPause},
    Point{"step.backward.mid", kPause},
    Point{"step.begin", kPause},
    Point{"step.forward.mid", kPause},
    Point{"step.grad_norm", kNumber},
    Point{"step.graph", kStep},
    Point{"step.graph.record", kNumber},
    Point{"step.loss", kNumber},
    Point{"step.loss.spike", kNumber},
    Point{"step.reduce.before", kPause},
    Point{"step.report", kPause},
    Point{"step.weights", kNumber},
    Point{"stop.agreed", kPause},
    Point{"upload.complete.sent", kPause},
    Point{"upload.head.done", kPause},
    Point{"upload.manifest.put", kPause},
    Point{"upload.part.sent", kPause},
    Point{"upload.queue.half", kWrite},
};

constexpr bool in_order() {
  for (std::size_t i = 1; i < kPoints.size(); ++i)
    if (!(kPoints[i - 1].name < kPoints[i].name)) return false;
  return true;
}
static_assert(in_order(), "pass() searches the table by bisection");

}  // namespace

std::span<const Point> points() {
  return kPoints;
}

}  // namespace wmtp::failpoint
#endif
