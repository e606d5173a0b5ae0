// A whole run, from the plan to what it leaves behind: trainer, report and export put together.
#pragma once
#include <exception>
#include <functional>
#include <string>

#include "wmtp/checkpoint/start_log.h"
#include "wmtp/comm/session.h"
#include "wmtp/config/load.h"
#include "wmtp/core/json.h"
#include "wmtp/run/report/exit_teller.h"
#include "wmtp/run/report/tracked_facts.h"
#include "wmtp/run/trainer.h"
#include "wmtp/tracking/console.h"

namespace wmtp::run {

struct TrainingContext {
  RunContext run;
  TrainerOptions options;
  tracking::ConsoleOptions console;
  OrderedJson environment;  // environment.json
  // What to type next, as the end of the run shows it.
  std::string command_after_end, command_after_stop;
  RunRequests requests;
  TrackedStart start;                 // but for run_uid
  std::string sync_command;           // sends what is left in MLflow's spool; for messages
  bool offline = false;               // nothing is sent
  ExitTeller* exit_teller = nullptr;  // BORROWED on rank 0; told of the run's sinks
  checkpoint::StartLine start_line;   // rank 0's line of restarts.jsonl, without the step
  // Told of what ends the loop before the run's objects are destroyed: where that takes long, a
  // rank that waits for this one would call it a hang.
  std::function<void(const std::exception&)> on_failure;
};

struct TrainingEnd {
  RunEnd end = RunEnd::completed;
  std::int64_t step = 0;
  bool uploads_pending = false;  // and may be sent: the run is not offline
};

// COLLECTIVE, BLOCKS until the run has ended. REQUIRES the run's folder in rank 0's hands, whose
// console, files and log tell of the run.
TrainingEnd run_training(const config::ResolvedConfig& resolved, const TrainingContext& context,
                         comm::ProcessGroupSession& session);

}  // namespace wmtp::run
