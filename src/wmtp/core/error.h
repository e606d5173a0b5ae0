// The one error type. A kind answers policy (exit code, retry, must peers be told); the text is for
// people: "[module] fact with numbers; hint".
#pragma once
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace wmtp {

enum class ErrorKind { config, data, io, comm, device, checkpoint, numeric, internal };

// 0 done, 65 bad data, 70 internal, 74 storage broken, 75 retry (peer lost, hang), 78 bad config or
// command line, 80 preempted and saved, 81 preempted and not saved, 17 numbers broken.
enum class ExitCode : int {
  ok = 0,
  numeric = 17,
  data = 65,
  internal = 70,
  storage = 74,
  retry = 75,
  config = 78,
  preempted_saved = 80,
  preempted_unsaved = 81,
};

class Error : public std::runtime_error {
 public:
  // `fact` says what is wrong, with numbers; `hint` (may be empty) what to do about it.
  Error(ErrorKind kind, std::string_view module, std::string_view fact, std::string_view hint = {},
        std::source_location where = std::source_location::current());

  ErrorKind kind() const { return kind_; }
  const std::string& module() const { return module_; }
  const std::string& fact() const { return fact_; }
  const std::string& hint() const { return hint_; }
  const std::source_location& where() const { return where_; }

 private:
  ErrorKind kind_;
  std::string module_, fact_, hint_;
  std::source_location where_;
};

ExitCode exit_code(ErrorKind kind);
std::string_view name_of(ErrorKind kind);

// Throws ErrorKind::internal naming the broken expectation: for states only a bug can produce.
#define WMTP_CHECK(condition, fact)                                              \
  do {                                                                           \
    if (!(condition)) [[unlikely]]                                               \
      throw ::wmtp::Error(::wmtp::ErrorKind::internal, "internal",               \
                          std::string(fact) + " (" #condition " does not hold)", \
                          "this is a bug in wmtp; please report it");            \
  } while (false)

}  // namespace wmtp
