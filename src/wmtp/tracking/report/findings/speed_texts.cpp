// What people are told of the rules on speed. The limits are made from the constants of rules.h,
// so that no text speaks of another number than the code.
#include <fmt/format.h>

#include "wmtp/tracking/report/findings/rule_texts.h"
#include "wmtp/tracking/report/findings/rules.h"

namespace wmtp::tracking {

std::vector<Rule> waiting_rules() {
  return {
      {.id = "data-wait",
       .question = kSlow,
       .severity = Severity::problem,
       .subject = "waiting for data",
       .limit = fmt::format("more than {} of the steps' time, and more than {:g} ms a step",
                            percent_text(kDataWaitShare), kDataWaitLeast_ms),
       .why = "batches are made ahead, so that a loader that keeps up costs nothing; what a busy "
              "machine makes of this by chance stays far below",
       .advice = "raise dataset.loader_threads and dataset.prefetch_batches; put "
                 "dataset.cache_dir on a local disk; leave cores to the loader with a smaller "
                 "runtime.threads",
       .keys = {"dataset.loader_threads", "dataset.prefetch_batches", "dataset.cache_dir",
                "runtime.threads"},
       .docs = kTroubles,
       .section = "Slow input",
       .chart = "Step time, ms",
       .look = look_at_data_wait},
      {.id = "comm-wait",
       .question = kSlow,
       .severity = Severity::problem,
       .subject = "waiting for communication",
       .limit = fmt::format("a median of more than {} of a step", percent_text(kCommWaitShare)),
       .why = "communication that hides behind computation leaves a small rest; from a quarter on, "
              "one device of four is paid for to wait",
       .advice =
           "move less: distributed.fsdp.sharding_strategy SHARD_GRAD_OP, NO_SHARD or "
           "HYBRID_SHARD where the memory is there, more training.gradient_accumulation_steps "
           "with distributed.fsdp.no_sync, distributed.fsdp.reduce_dtype bf16",
       .keys = {"distributed.fsdp.sharding_strategy", "training.gradient_accumulation_steps",
                "distributed.fsdp.no_sync", "distributed.fsdp.reduce_dtype"},
       .docs = kTroubles,
       .section = "Slow communication",
       .chart = "Waited for communication",
       .explained_by = {"straggler"},
       .look = look_at_comm_wait},
      {.id = "straggler",
       .question = kSlow,
       .severity = Severity::problem,
       .subject = "a rank that holds the others up",
       .limit = fmt::format("a rank that takes more than {:.2f} times as long as the fastest",
                            kStragglerSlowdown),
       .why = "it is where the run itself names a rank: 0.75 of the fastest one's speed, beyond "
              "what equal ranks of a busy machine differ by",
       .advice = "look at that rank's device and at what else runs on its cores; where it loses "
                 "its time in data, at dataset.loader_threads and its disk",
       .keys = {"dataset.loader_threads"},
       .docs = kTroubles,
       .section = "Slow communication",
       .chart = "Speed of the slowest rank",
       .look = look_at_stragglers},
  };
}

std::vector<Rule> save_rules() {
  return {
      {.id = "saves-block",
       .question = kSlow,
       .subject = "saves that training waits for",
       .limit = fmt::format("more than {} of the run's time, and more than {:g} s a save; the save "
                            "of the last step does not count",
                            percent_text(kSaveBlockedShare), kSaveBlockedLeast_s),
       .why = "in the background a save costs one copy of the state, well below that at any "
              "sensible interval",
       .advice = "set checkpoint.async true, or save less often with checkpoint.save_every_steps; "
                 "a log line says where the host has no room for the copy",
       .keys = {"checkpoint.async", "checkpoint.save_every_steps"},
       .docs = kCheckpoints,
       .section = "What a save takes from the run",
       .chart = "Saves, seconds",
       .look = look_at_blocking_saves},
      {.id = "saves-left-out",
       .question = kSlow,
       .subject = "saves that are left out",
       .limit = fmt::format("more than {} of the saves that were due", percent_text(kLeftOutShare)),
       .why = "one that meets a slow moment of the disk is chance; one in ten means that writing "
              "takes longer than the interval",
       .advice = "save less often (checkpoint.save_every_steps), or to a faster disk "
                 "(checkpoint.save_dir)",
       .keys = {"checkpoint.save_every_steps", "checkpoint.save_dir"},
       .docs = kCheckpoints,
       .section = "What a save takes from the run",
       .chart = "Saves, seconds",
       .explained_by = {"failed-saves"},
       .look = look_at_left_out_saves},
      {.id = "failed-saves",
       .question = kUnstable,
       .severity = Severity::problem,
       .subject = "saves that failed",
       .limit = fmt::format("{} or more", kFailedSaves),
       .why = "a checkpoint that is not there is missed when the run has to go on from it",
       .advice = "make room in checkpoint.save_dir, or keep fewer with "
                 "checkpoint.save_total_limit; the log has the reason",
       .keys = {"checkpoint.save_dir", "checkpoint.save_total_limit"},
       .docs = "docs/resume.md",
       .section = "When something is wrong",
       .look = look_at_failed_saves},
      {.id = "restarts-without-progress",
       .question = kSlow,
       .severity = Severity::problem,
       .subject = "restarts without progress",
       .limit = fmt::format("{} or more starts that begin where the one before began, or earlier",
                            kVainStarts),
       .why = "one may be a lost machine; a second one did the same work for nothing again",
       .advice = "look at last_exit.json and the ends of logs/ for the first rank that died; where "
                 "jobs are merely short, set checkpoint.save_every_minutes",
       .keys = {"checkpoint.save_every_minutes"},
       .docs = kTroubles,
       .section = "Restart storm",
       .look = look_at_restarts},
  };
}

}  // namespace wmtp::tracking
