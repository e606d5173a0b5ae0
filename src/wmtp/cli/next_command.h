// What the end of a run tells its user to type next.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace wmtp::cli {

// After a run that is done.
std::string command_after_end(const std::filesystem::path& run_dir);

// Sends what a run has left in its MLflow spool.
std::string command_to_sync(const std::filesystem::path& run_dir);

struct StartedCommand {
  std::vector<std::string> words;  // argv without the program
  int world = 1;
  bool by_wmtp_launch = false;
  bool resumes = true;  // the same words go on from the newest checkpoint
};
// After a run that was stopped: the command that goes on with it. Of another launcher, which has
// its own command, only that it is to be repeated.
std::string command_after_stop(const StartedCommand& started);

}  // namespace wmtp::cli
