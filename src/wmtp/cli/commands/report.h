// What `wmtp report` does besides reports.
#pragma once
#include <string>
#include <vector>

#include "wmtp/cli/command.h"

namespace wmtp::cli {

// --sync-mlflow: sends what the spools of these runs hold. BLOCKS. 0 once nothing is left, 75 where
// something is.
int sync_mlflow(const std::vector<std::string>& runs, const Session& session);

}  // namespace wmtp::cli
