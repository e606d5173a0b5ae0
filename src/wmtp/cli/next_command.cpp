#include "wmtp/cli/next_command.h"

#include <fmt/format.h>

#include <string_view>

namespace wmtp::cli {
namespace {

std::string shell_quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// Without --resume, which may be given once.
std::vector<std::string> without_resume(const std::vector<std::string>& words) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--resume")
      ++i;
    else if (!words[i].starts_with("--resume="))
      kept.push_back(words[i]);
  }
  return kept;
}

}  // namespace

std::string command_after_end(const std::filesystem::path& run_dir) {
  return "wmtp report " + shell_quoted(run_dir.string());
}

std::string command_to_sync(const std::filesystem::path& run_dir) {
  return command_after_end(run_dir) + " --sync-mlflow";
}

std::string command_after_stop(const StartedCommand& started) {
  const bool foreign = started.world > 1 && !started.by_wmtp_launch;
  if (foreign)
    return started.resumes ? "the same command again" : "the same command with --resume auto";
  std::string command = "wmtp";
  if (started.by_wmtp_launch) command += fmt::format(" launch --nproc {} --", started.world);
  for (const std::string& word : started.resumes ? started.words : without_resume(started.words))
    command += " " + shell_quoted(word);
  return started.resumes ? command : command + " --resume auto";
}

}  // namespace wmtp::cli
