#include "wmtp/cli/init/questions.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "wmtp/cli/terminal.h"
#include "wmtp/core/error.h"
#include "wmtp/core/printable.h"

namespace wmtp::cli {
namespace {

constexpr int kTries = 3;

std::string read_answer(const Question& question) {
  const std::string usual = question.usual.empty() ? "" : fmt::format(" [{}]", question.usual);
  std::cerr << printable(question.text + usual) << ": " << std::flush;
  std::string line;
  if (!std::getline(std::cin, line)) {
    std::cerr << "\n";
    throw Error(ErrorKind::config, "init", fmt::format("no answer: {}", question.text),
                "the flags of `wmtp init --help` answer beforehand");
  }
  const std::size_t begin = line.find_first_not_of(" \t"), end = line.find_last_not_of(" \t\r");
  return begin == line.npos ? question.usual : line.substr(begin, end - begin + 1);
}

}  // namespace

bool someone_answers() {
  return ::isatty(STDIN_FILENO) == 1 && reaches_terminal(STDOUT_FILENO);
}

std::string ask(const Question& question) {
  for (int tries = 1;; ++tries) {
    const std::string answer = read_answer(question);
    try {
      if (answer.empty())
        throw Error(ErrorKind::config, "init", "there is no usual answer to this one");
      question.check(answer);
      return answer;
    } catch (const Error& error) {
      if (tries == kTries) throw;
      std::cerr << printable(error.what()) << "\n";
    }
  }
}

}  // namespace wmtp::cli
