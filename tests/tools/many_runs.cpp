// The program many times over without loading it each time: a line of JSON on stdin is one command
// line, run in a child of this process; a line with its exit code on stdout answers it.
//   {"args": ["train", "--config", "a.yaml"], "cwd": "/tmp/x", "output": "/tmp/x/said.txt"}
// No thread and no device is touched before the fork, so that every child begins alike.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "wmtp/cli/command.h"
#include "wmtp/cli/report.h"
#include "wmtp/core/json.h"
#include "wmtp/core/log.h"

namespace wmtp::cli {
namespace {

int run_program(std::vector<std::string> words) {
  words.insert(words.begin(), "wmtp");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  Session session;
  session.program = words.front();
  CLI::App app;
  try {
    set_up_program(app, session);
    add_commands(app, session);
    app.parse(static_cast<int>(argv.size()), argv.data());
    log::configure({.level = log::Level::info, .json = session.json, .color = false});
    return session.run();
  } catch (const std::exception& error) {
    return report(session, as_error(error));
  }
}

[[noreturn]] void be_the_child(const Json& request) {
  const std::string output = request.at("output"), folder = request.at("cwd");
  const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || ::chdir(folder.c_str()) != 0) ::_exit(127);
  for (const int to : {STDOUT_FILENO, STDERR_FILENO})
    if (::dup2(file, to) < 0) ::_exit(127);
  std::exit(run_program(request.at("args").get<std::vector<std::string>>()));
}

int answer(const Json& request) {
  const pid_t child = ::fork();
  if (child == 0) be_the_child(request);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace
}  // namespace wmtp::cli

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const int code = wmtp::cli::answer(wmtp::parse_json(line, "stdin"));
    std::cout << wmtp::Json{{"code", code}}.dump() << std::endl;
  }
}
