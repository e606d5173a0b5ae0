// What is wrong with a line of input, and when it is too much.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/data/options.h"

namespace wmtp::data {

enum class BadCause : std::uint8_t {
  invalid_json,
  invalid_utf8,
  nul,
  not_an_object,
  duplicate_key,
  integer_range,
  too_long,
  too_deep,
  schema,
  cut_line,
};
constexpr std::size_t kNumBadCauses = 10;
std::string_view name_of(BadCause cause);

struct BadLine {
  BadCause cause = BadCause::invalid_json;
  std::uint64_t row = 0;   // physical line, from 0
  std::size_t column = 1;  // byte in the line, from 1
  std::string text;        // the fact: "output" is a number, expected a string
};

using BadCounts = std::array<std::uint64_t, kNumBadCauses>;

// Counts bad lines of one file and applies the policy. Lines must be reported in file order.
class BadLineLog {
 public:
  BadLineLog(std::string file, const BadLinePolicy& policy)
      : file_(std::move(file)), policy_(policy) {}

  void add(BadLine line);
  std::uint64_t total() const { return total_; }
  const BadCounts& counts() const { return counts_; }
  const std::vector<BadLine>& first() const { return first_; }

  // More lines than `skip` may ever pass over: no need to read on.
  bool hopeless() const { return total_ > limit_of_patience(); }
  // Throws ErrorKind::data with the first 20 when the policy says so. `num_lines` = lines read.
  void judge(std::uint64_t num_lines) const;
  std::string summary() const;  // "3 bad lines: 2 invalid JSON, 1 duplicate key"

 private:
  std::uint64_t limit_of_patience() const;
  [[noreturn]] void fail(std::string_view why) const;

  std::string file_;
  BadLinePolicy policy_;
  std::uint64_t total_ = 0;
  BadCounts counts_{};
  std::vector<BadLine> first_;
};

std::string format_bad_line(std::string_view file, const BadLine& line);

}  // namespace wmtp::data
