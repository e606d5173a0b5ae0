// Questions to a person at a terminal.
#pragma once
#include <functional>
#include <string>

namespace wmtp::cli {

struct Question {
  std::string text;                                      // "model folder"
  std::string usual;                                     // the answer of an empty line; empty: none
  std::function<void(const std::string& answer)> check;  // throws Error for one that will not do
};

// Whether there is someone to ask: stdin and stdout are a terminal.
bool someone_answers();

// Asks on stderr, so that stdout holds results alone, until an answer passes; the third that does
// not is its Error, as is an end of input (config). BLOCKS.
std::string ask(const Question& question);

}  // namespace wmtp::cli
