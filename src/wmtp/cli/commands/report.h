// What `wmtp report` does besides writing one report.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/cli/command.h"
#include "wmtp/http/page_request.h"
#include "wmtp/tracking/report/recorded/run_data.h"

namespace wmtp::cli {

// The runs of these folders; runs of one name are told apart by their folders.
std::vector<tracking::RunData> read_runs(const std::vector<std::string>& folders);

// --sync-mlflow: sends what the spools of these runs hold. BLOCKS. 0 once nothing is left, 75 where
// something is.
int sync_mlflow(const std::vector<std::string>& runs, const Session& session);

struct LiveReport {
  std::vector<std::string> folders;
  std::filesystem::path out;  // --follow: the page, written again when the runs have grown
  std::optional<http::LoopbackAddress> address;  // --serve
};
// BLOCKS until the runs have ended and, where the page is served, until a signal asks to stop; 0.
// Folders without a step yet are waited for, and what cannot be read meanwhile is said on the page,
// above what could be read before. Error config where a folder is missing, Error data where runs
// that have ended cannot be read.
int report_live(const LiveReport& live, const Session& session);

}  // namespace wmtp::cli
