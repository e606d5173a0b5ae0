#include "wmtp/config/migrate/script_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "wmtp/core/error.h"

namespace wmtp::config {
namespace {

[[noreturn]] void refuse_call(std::string_view fact) {
  throw Error(ErrorKind::config, "migrate", fmt::format("--script: {}", fact),
              "expected a line like: torchrun --nproc_per_node 8 train.py --lr 1e-4");
}

std::string last_part(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_variable(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == word.npos || equals == 0) return false;
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals),
                     [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

bool is_python(const std::string& word) {
  return last_part(word).starts_with("python");
}

bool is_launcher(const std::string& word) {
  return last_part(word) == "torchrun" || last_part(word) == "accelerate";
}

bool starts_ranks(const std::string& word) {
  const std::string name = last_part(word);
  return name == "srun" || name == "mpirun" || name == "mpiexec";
}

// A negative number is a value.
bool is_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && !std::isdigit(static_cast<unsigned char>(word[1])) &&
         word[1] != '.';
}

class CallParser {
 public:
  explicit CallParser(std::string_view line) : words_(shell_words(line)) {}

  ScriptCall parse() {
    while (more() && is_variable(words_[at_])) call_.variables.push_back(take());
    if (more() && starts_ranks(words_[at_]))
      while (more() && !is_launcher(words_[at_]) && !is_python(words_[at_]) &&
             !words_[at_].ends_with(".py"))
        call_.starter.push_back(take());
    if (!more()) refuse_call("there is no script");
    take_launcher();
    take_flags();
    return std::move(call_);
  }

 private:
  bool more() const { return at_ < words_.size(); }
  bool next_is(std::string_view word) const { return more() && words_[at_] == word; }
  std::string take() { return std::move(words_[at_++]); }

  void take_launcher() {
    const std::string program = words_[at_];
    if (program.ends_with(".py")) return take_script();
    if (!is_launcher(program) && !is_python(program))
      refuse_call(
          fmt::format("\"{}\" is neither torchrun, accelerate, srun, mpirun nor python", program));
    ++at_;
    bool launched = is_launcher(program);
    if (next_is("launch")) ++at_;
    while (is_python(program) && next_is("-u")) ++at_;  // only how Python writes
    if (is_python(program) && next_is("-m")) {
      ++at_;
      launched = next_is("torch.distributed.run") || next_is("torch.distributed.launch");
      if (!launched) return take_script();
      ++at_;
    }
    while (launched && more() && is_flag(words_[at_])) {
      if (next_is("-m") || next_is("--module")) {
        ++at_;
        break;
      }
      call_.launcher_flags.push_back(take_launcher_flag());
    }
    take_script();
  }

  ScriptFlag take_launcher_flag() {
    ScriptFlag flag = take_name();
    const bool sole = flag.name == "standalone" || flag.name == "no-python" ||
                      flag.name == "multi-gpu" || flag.name == "use-fsdp";
    if (flag.values.empty() && !sole && more() && !is_flag(words_[at_]) &&
        !words_[at_].ends_with(".py"))
      flag.values.push_back(take());
    return flag;
  }

  void take_script() {
    if (!more() || is_flag(words_[at_])) refuse_call("there is no script");
    call_.script = take();
  }

  ScriptFlag take_name() {
    ScriptFlag flag;
    flag.written = take();
    if (const auto equals = flag.written.find('='); equals != flag.written.npos) {
      flag.values.push_back(flag.written.substr(equals + 1));
      flag.written.resize(equals);
    }
    flag.name =
        flag.written.substr(std::min(flag.written.find_first_not_of('-'), flag.written.size()));
    std::ranges::replace(flag.name, '_', '-');
    return flag;
  }

  void take_flags() {
    while (more()) {
      if (!is_flag(words_[at_])) {
        call_.arguments.push_back(take());
        continue;
      }
      ScriptFlag flag = take_name();
      const bool joined = !flag.values.empty();
      while (!joined && more() && !is_flag(words_[at_])) flag.values.push_back(take());
      call_.flags.push_back(std::move(flag));
    }
  }

  std::vector<std::string> words_;
  std::size_t at_ = 0;
  ScriptCall call_;
};

}  // namespace

bool has_name(std::string_view names, std::string_view name) {
  for (std::size_t start = 0; start < names.size();) {
    const std::size_t end = std::min(names.find(' ', start), names.size());
    if (names.substr(start, end - start) == name) return true;
    start = end + 1;
  }
  return false;
}

std::vector<std::string> shell_words(std::string_view line) {
  std::vector<std::string> words;
  bool open = false;  // a word has begun
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool escapes = c == '\\' && quote != '\'' && i + 1 < line.size();
    if (escapes && line[i + 1] == '\n') {  // the line goes on
      ++i;
      continue;
    }
    if (quote == 0 && std::isspace(static_cast<unsigned char>(c))) {
      open = false;
      continue;
    }
    if (!open) words.emplace_back();
    open = true;
    if (escapes)
      words.back() += line[++i];
    else if (quote != 0 && c == quote)
      quote = 0;
    else if (quote == 0 && (c == '"' || c == '\''))
      quote = c;
    else
      words.back() += c;
  }
  if (quote != 0) refuse_call(fmt::format("the quote {} is not closed", quote));
  return words;
}

ScriptCall parse_script_call(std::string_view line) {
  return CallParser(line).parse();
}

}  // namespace wmtp::config
