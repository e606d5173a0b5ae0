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

constexpr auto kPlain = set_of(Action::kill, Action::stop, Action::sleep, Action::skip);
constexpr auto kCall = static_cast<std::uint16_t>(kPlain | set_of(Action::eio, Action::enospc));
constexpr auto kWrite = static_cast<std::uint16_t>(kCall | set_of(Action::short_write));
constexpr auto kNumber = static_cast<std::uint16_t>(kPlain | set_of(Action::damage));

constexpr std::array kPoints{
    Point{"cache.rename.before", kCall},
    Point{"cache.write.half", kWrite},
    Point{"comm.agree.post", kPlain},
    Point{"comm.collective.before", kNumber},
    Point{"comm.hello", kPlain},
    Point{"export.rename.before", kCall},
    Point{"index.rename.before", kCall},
    Point{"index.write.half", kWrite},
    Point{"load.box.read", kCall},
    Point{"load.manifest.read", kCall},
    Point{"load.quarantine.rename", kCall},
    Point{"load.scan.begin", kCall},
    Point{"lock.break", kPlain},
    Point{"retain.files.half", kCall},
    Point{"retain.manifest.gone", kCall},
    Point{"save.dirs.fsync", kCall},
    Point{"save.manifest.fsync", kCall},
    Point{"save.manifest.half", kWrite},
    Point{"save.parent.fsync", kCall},
    Point{"save.pointer.rename", kCall},
    Point{"save.rename.after", kCall},
    Point{"save.rename.before", kCall},
    Point{"save.shard.closed", kCall},
    Point{"save.shard.fsync", kCall},
    Point{"save.shard.half", kWrite},
    Point{"save.shard.open", kCall},
    Point{"save.shard.written", kCall},
    Point{"save.stage.begin", kCall},
    Point{"save.stage.memory", kCall},
    Point{"save.state.half", kWrite},
    Point{"save.tmpdir.made", kCall},
    Point{"save.vote.post", kPlain},
    Point{"save.vote.read", kPlain},
    Point{"spool.acked.write", kWrite},
    Point{"spool.append.half", kWrite},
    Point{"step.apply.before", kPlain},
    Point{"step.backward.mid", kPlain},
    Point{"step.begin", kPlain},
    Point{"step.forward.mid", kPlain},
    Point{"step.grad_norm", kNumber},
    Point{"step.loss", kNumber},
    Point{"step.reduce.before", kPlain},
    Point{"step.report", kPlain},
    Point{"step.weights", kNumber},
    Point{"stop.agreed", kPlain},
    Point{"upload.complete.sent", kCall},
    Point{"upload.head.done", kCall},
    Point{"upload.manifest.put", kCall},
    Point{"upload.part.sent", kCall},
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
