#include "wmtp/checkpoint/save/save.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "wmtp/checkpoint/format/guard.h"
#include "wmtp/checkpoint/reply.h"
#include "wmtp/checkpoint/save/part_merger.h"
#include "wmtp/core/log.h"

namespace wmtp::checkpoint {
namespace {

// No memory is a failed save like any other.
Error as_save_error(const std::exception& thrown) {
  if (const auto* error = dynamic_cast<const Error*>(&thrown)) return *error;
  return Error(ErrorKind::io, "checkpoint", fmt::format("the save failed: {}", thrown.what()));
}

// The value of a yes; a no is thrown with its kind.
std::string answer(const std::string& vote, std::string_view whose) {
  Reply reply = parse_reply(vote);
  if (reply.yes) return std::move(reply.text);
  throw Error(reply.kind, "checkpoint", fmt::format("{}: {}", whose, reply.text));
}

constexpr std::string_view kGivenUp = "the save was given up";
constexpr std::chrono::milliseconds kPollInterval{100};  // between two signs of life while waiting

std::string part_of(int rank) {
  return fmt::format("part/{}", rank);
}

}  // namespace

Saver::Saver(SaveContext context) : context_(std::move(context)) {
  check_name_part(context_.model, "model name");
  check_name_part(context_.run_id, "run id");
}

SaveReport Saver::save(const SaveRequest& request) {
  if (context_.rank == 0 && num_saves_ > 0) earlier_.push_back(key(""));
  ++num_saves_;
  step_ = request.step;
  return context_.rank == 0 ? lead(request) : follow(request);
}

std::string Saver::key(std::string_view what) const {
  return fmt::format("save/{}/{}/{}/{}", context_.attempt, num_saves_, step_, what);
}

void Saver::post(std::string_view what, std::string_view value) const {
  if (failpoint::pass("save.vote.post") == failpoint::Action::skip) return;
  if (value.size() > kMaxVoteBytes)
    throw Error(ErrorKind::checkpoint, "checkpoint",
                fmt::format("the list of this rank's tensors takes {} bytes, {} can be sent",
                            value.size(), kMaxVoteBytes),
                "with more ranks each has fewer tensors");
  context_.vote.post(key(what), value);
}

std::string Saver::wait_for(std::string_view what, Clock::time_point since,
                            std::chrono::milliseconds timeout) const {
  failpoint::pass("save.vote.read");
  const std::string name = key(what);
  for (bool late = false; !late; context_.check_cancelled()) {
    const auto left = since + timeout - Clock::now();
    late = left <= Clock::duration::zero();
    const auto look =
        late ? std::chrono::milliseconds(0)
             : std::min(kPollInterval, std::chrono::ceil<std::chrono::milliseconds>(left));
    if (auto value = context_.vote.wait(name, look)) return *std::move(value);
  }
  throw Error(ErrorKind::comm, "checkpoint",
              fmt::format("saving step {}: no word of \"{}\" within {} s", step_, what,
                          static_cast<double>(timeout.count()) / 1000),
              "a rank is gone or its storage is too slow");
}

Manifest Saver::describe(const SaveRequest& request) const {
  Manifest manifest;
  manifest.model = context_.model;
  manifest.step = request.step;
  manifest.kind = request.kind;
  manifest.run_id = context_.run_id;
  manifest.created = utc_timestamp();
  manifest.wmtp = request.wmtp;
  manifest.world_size = context_.world_size;
  manifest.strategy = request.strategy;
  manifest.fingerprints = request.fingerprints;
  return manifest;
}

SaveReport Saver::lead(const SaveRequest& request) {
  const std::string name = checkpoint_name(context_.model, request.step);
  bool begun = false;
  try {
    context_.check_cancelled();
    const std::filesystem::path folder = begin(request);
    begun = true;
    post("begin", ok(folder.filename().string()));
    if (folder.empty()) return {name, true};
    Manifest manifest = describe(request);
    collect_parts(manifest, write_part(folder, request));
    write_texts(folder, request, manifest);
    write_manifest(folder, manifest);
    context_.check_cancelled();
    publish(folder, name);
  } catch (const std::exception& thrown) {
    const Error error = as_save_error(thrown);
    post(begun ? "decision" : "begin", failed(error));
    throw error;
  }
  try {
    post("decision", ok(name));
  } catch (const Error& error) {  // the checkpoint itself is committed
    log::warn("checkpoint", "{} is committed, but the other ranks cannot be told: {}", name,
              error.fact());
  }
  return {name, false};
}

SaveReport Saver::follow(const SaveRequest& request) {
  const std::string name = checkpoint_name(context_.model, request.step);
  const std::string folder = answer(wait_for("begin", Clock::now(), context_.timeout), kGivenUp);
  if (folder.empty()) return {name, true};
  const std::string part = part_of(context_.rank);
  try {
    post(part, ok(to_text(write_part(context_.save_dir / folder, request))));
  } catch (const std::exception& thrown) {
    const Error error = as_save_error(thrown);
    post(part, failed(error));
    throw error;
  }
  // Rank 0 waits half as long for the slowest rank, and then writes.
  answer(wait_for("decision", Clock::now(), 2 * context_.timeout), kGivenUp);
  return {name, false};
}

RankPart Saver::write_part(const std::filesystem::path& folder, const SaveRequest& request) {
  RankPart part;
  if (!request.local_error.empty()) throw Error(ErrorKind::io, "checkpoint", request.local_error);
  part.state_hash = request.state_hash;
  guarded(failpoint::pass("save.stage.begin"), folder, [&] {
    part.model_tensors = table_of(request.model);
    part.optim_tensors = table_of(request.optim);
    part.files = write_shards({context_.files, folder, context_.rank, context_.check_cancelled},
                              request.model, request.optim);
  });
  return part;
}

void Saver::collect_parts(Manifest& manifest, RankPart mine) {
  PartMerger merger(manifest);
  merger.add(0, std::move(mine));
  const auto since = Clock::now();  // one limit for all: nobody waits for the decision much longer
  for (int rank = 1; rank < context_.world_size; ++rank) {
    const std::string what = part_of(rank);
    const std::string text = answer(wait_for(what, since, context_.timeout),
                                    fmt::format("rank {} could not save its part", rank));
    merger.add(rank, parse_part(text, key(what)));
  }
  forget_earlier();
  merger.finish();
}

// Every rank has voted in this save, so none reads the votes of those before any more.
void Saver::forget_earlier() {
  try {
    for (const std::string& earlier : std::exchange(earlier_, {})) {
      for (const std::string_view what : {"begin", "decision"})
        context_.vote.forget(fmt::format("{}{}", earlier, what));
      for (int rank = 1; rank < context_.world_size; ++rank)
        context_.vote.forget(earlier + part_of(rank));
    }
  } catch (const Error& error) {  // they only take room
    log::warn("checkpoint", "votes of earlier saves stay: {}", error.fact());
  }
}

}  // namespace wmtp::checkpoint
