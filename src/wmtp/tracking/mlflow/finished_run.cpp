#include "wmtp/tracking/mlflow/finished_run.h"

#include <algorithm>

#include "wmtp/core/log.h"

namespace wmtp::tracking::mlflow {

void forget_finished_run(Spool& spool, const HeldSteps& held) {
  try {
    const bool is_finished = spool.with_files([&](SpoolFiles& files) {
      const auto end = files.end();
      auto run = files.run();
      if (!run || !end || end->status != RunStatus::finished || !end->is_sent) return false;
      for (const auto& [key, steps] : held) {
        const auto at = run->sent_up_to.try_emplace(key, steps.largest()).first;
        at->second = std::max(at->second, steps.largest());
      }
      files.save(*run);
      return true;
    });
    if (is_finished) spool.remove_segments();
  } catch (const Error& error) {
    log::debug("mlflow", "{}", error.fact());
  }
}

}  // namespace wmtp::tracking::mlflow
