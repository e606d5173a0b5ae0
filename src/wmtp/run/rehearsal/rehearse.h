// A run tried out: its own trainer takes one step with models of two blocks, saves and loads what
// it saved, in a folder that the caller removes.
#pragma once
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "wmtp/comm/session.h"
#include "wmtp/config/load.h"
#include "wmtp/run/rehearsal/rehearsal_config.h"
#include "wmtp/run/trainer.h"
#include "wmtp/tracking/console.h"

namespace wmtp::run {

inline constexpr std::int64_t kRehearsalBlocks = 2;  // of the trunk; prediction heads stay

struct RehearsalContext {
  RunContext run;
  TrainerOptions options;
  std::filesystem::path folder;  // that all ranks see, on the storage of the run's checkpoints
  tracking::ConsoleOptions console;
  std::shared_ptr<tracking::Sink> listener;  // rank 0; told what the console is
  RunRequests requests;
  // As TrainingContext has it.
  std::function<void(const std::exception&)> on_failure;
};

struct RehearsalEnd {
  RehearsalData data = RehearsalData::beginnings;
  std::int64_t blocks = 0;    // that the step was taken with, those of heads included
  std::string resumes_from;   // the checkpoint that the run would go on from; rank 0; empty: none
  bool weights_read = false;  // false: they are drawn, none could be no number
};

// COLLECTIVE, BLOCKS. Errors are those that the run would end with, of a kind that gives its exit
// code: weights that are no numbers are numeric. Reads the run's own files and, on rank 0, the
// checkpoint it would resume from; writes below `folder` alone.
RehearsalEnd rehearse(const config::ResolvedConfig& resolved, const RehearsalContext& context,
                      comm::ProcessGroupSession& session);

}  // namespace wmtp::run
