#include "wmtp/checkpoint/load/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <thread>

#include "wmtp/checkpoint/format/folder.h"
#include "wmtp/checkpoint/format/guard.h"
#include "wmtp/checkpoint/reply.h"
#include "wmtp/core/log.h"

namespace wmtp::checkpoint {
namespace {

// Runs `step` again while the storage fails; the last failure is thrown.
template <class Step>
auto with_retries(const ChooseRequest& request, Step&& step) {
  for (int tries = 1;; ++tries) try {
      return step();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::io || tries >= request.num_reads) throw;
      log::warn("checkpoint", "{}; trying again", error.fact());
      std::this_thread::sleep_for(request.read_pause * tries);
    }
}

constexpr std::string_view kGood = "good", kBad = "bad";

std::string verdict_of(int rank) {
  return fmt::format("verdict/{}", rank);
}

class Chooser {
 public:
  explicit Chooser(const ChooseRequest& request) : request_(request) {}

  std::optional<Choice> run() { return request_.rank == 0 ? lead() : follow(); }

 private:
  std::string key(std::string_view what) const {
    return fmt::format("load/{}/{}/{}", request_.attempt, round_, what);
  }
  std::string wait_for(std::string_view what) const {
    if (auto value = request_.vote.wait(key(what), request_.timeout)) return *std::move(value);
    throw Error(ErrorKind::comm, "checkpoint",
                fmt::format("choosing a checkpoint: no word of \"{}\"", what), "a rank is gone");
  }

  // This rank's share of the checking: yes with the manifest's hash, or no with the reason.
  std::string verdict(const std::string& name) const {
    try {
      return with_retries(request_, [&] {
        CheckpointReader reader(request_.files, request_.save_dir / name);
        reader.check_presence();
        reader.check_share(request_.rank, request_.world_size, request_.verify);
        return ok(reader.manifest().self_sha256);
      });
    } catch (const std::exception& thrown) {
      return failed(as_error(thrown));
    }
  }

  // No memory is the storage's fault as well: no verdict.
  static Error as_error(const std::exception& thrown) {
    if (const auto* error = dynamic_cast<const Error*>(&thrown)) return *error;
    return Error(ErrorKind::io, "checkpoint", fmt::format("reading failed: {}", thrown.what()));
  }

  std::vector<FoundCheckpoint> candidates() const {
    fail_if_asked(failpoint::pass("load.scan.begin"), request_.save_dir);
    auto found = find_checkpoints(request_.files, request_.save_dir, request_.model);
    if (!request_.of_run.empty())
      std::erase_if(found, [&](const auto& one) { return !is_of_run(one.name); });
    if (request_.only.empty()) return found;
    std::erase_if(found, [&](const auto& one) { return one.name != request_.only; });
    if (found.empty())
      throw Error(
          ErrorKind::checkpoint, "checkpoint",
          fmt::format("{} is no checkpoint of {}: {}-<N>steps with a manifest.json",
                      (request_.save_dir / request_.only).string(), request_.model, request_.model),
          "weights of other folders are given as models.policy.path");
    return found;
  }

  bool is_of_run(const std::string& name) const {
    try {
      return CheckpointReader(request_.files, request_.save_dir / name).manifest().run_id ==
             request_.of_run;
    } catch (const DamageError&) {
      return false;
    }
  }

  std::optional<Choice> lead() {
    try {
      std::string last_fact;
      for (const FoundCheckpoint& found : with_retries(request_, [&] { return candidates(); })) {
        open_round(ok(found.name));
        const std::string fact = judge(found.name);
        close_round(ok(fact.empty() ? kGood : kBad));
        if (fact.empty()) return Choice{found.name, found.step};
        last_fact = fact;
        quarantine(found.name, fact);
      }
      if (!request_.allow_fresh_start && request_.of_run.empty()) refuse_to_begin_anew(last_fact);
    } catch (const std::exception& thrown) {
      const Error error = as_error(thrown);
      if (judging_)
        close_round(failed(error));
      else
        open_round(failed(error));
      throw error;
    }
    open_round(ok(""));
    return std::nullopt;
  }

  void open_round(const std::string& vote) {
    ++round_;
    judging_ = true;
    request_.vote.post(key("try"), vote);
  }
  void close_round(const std::string& vote) {
    judging_ = false;
    request_.vote.post(key("end"), vote);
  }

  // "" when all ranks find it good; the first damage otherwise. What is no verdict is thrown.
  std::string judge(const std::string& name) {
    std::string damage, hash;
    for (int rank = 0; rank < request_.world_size; ++rank) {
      const std::string vote = rank == 0 ? verdict(name) : wait_for(verdict_of(rank));
      const Reply reply = parse_reply(vote);
      if (!reply.yes && reply.kind != ErrorKind::checkpoint)
        throw Error(reply.kind, "checkpoint", reply.text);
      if (!reply.yes && damage.empty()) damage = reply.text;
      if (!reply.yes) continue;
      if (!hash.empty() && reply.text != hash)
        throw Error(ErrorKind::io, "checkpoint",
                    fmt::format("rank {} sees another {} than other ranks", rank, name),
                    "is the folder on storage that all ranks share?");
      hash = reply.text;
    }
    return damage;
  }

  void quarantine(const std::string& name, const std::string& fact) {
    if (!request_.only.empty())
      throw Error(ErrorKind::checkpoint, "checkpoint", fact,
                  "another checkpoint may be whole: --resume auto finds it");
    try {
      const std::string aside = checkpoint::quarantine(request_.files, request_.save_dir, name);
      log::warn("checkpoint", "{}; set aside as {}, trying the one before", fact, aside);
    } catch (const Error& error) {  // a folder that may only be read can still be resumed from
      log::warn("checkpoint", "{}; cannot set it aside: {}", fact, error.fact());
    }
  }

  // A model that was moved or renamed would begin at step 0 beside its own checkpoints.
  void refuse_beside_others() const {
    const auto others = find_checkpoints(request_.files, request_.save_dir, "");
    if (others.empty() || others.front().model == request_.model) return;
    throw Error(
        ErrorKind::config, "checkpoint",
        fmt::format("{} holds {} and no checkpoint of {}", request_.save_dir.string(),
                    others.front().name, request_.model),
        fmt::format("models.policy.name: {} goes on with it; --allow-fresh-start or --resume "
                    "never begins at step 0",
                    others.front().model));
  }

  // Where there was a checkpoint, a run begins at step 0 only if it is told to: this start, and
  // every later one, which finds none but those that were set aside.
  void refuse_to_begin_anew(const std::string& last_fact) const {
    std::string fact = last_fact.empty() ? "" : "the last: " + last_fact;
    if (fact.empty()) {
      const auto aside = find_set_aside(request_.files, request_.save_dir, request_.model);
      if (aside.empty()) return refuse_beside_others();
      fact = fmt::format("set aside earlier: {}", fmt::join(aside, ", "));
    }
    throw Error(
        ErrorKind::checkpoint, "checkpoint",
        fmt::format("none of the checkpoints in {} is whole; {}", request_.save_dir.string(), fact),
        "--allow-fresh-start or --resume never begins anew");
  }

  std::string value_of(std::string_view what) const {
    Reply reply = parse_reply(wait_for(what));
    if (reply.yes) return std::move(reply.text);
    throw Error(reply.kind, "checkpoint", reply.text);
  }

  std::optional<Choice> follow() {
    for (;;) {
      ++round_;
      const std::string name = value_of("try");
      if (name.empty()) return std::nullopt;
      request_.vote.post(key(verdict_of(request_.rank)), verdict(name));
      if (value_of("end") == kGood) return Choice{name, parse_checkpoint_name(name)->step};
    }
  }

  const ChooseRequest& request_;
  int round_ = 0;
  bool judging_ = false;
};

}  // namespace

std::optional<Choice> choose_checkpoint(const ChooseRequest& request) {
  return Chooser(request).run();
}

}  // namespace wmtp::checkpoint
