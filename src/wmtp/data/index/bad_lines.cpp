#include "wmtp/data/index/bad_lines.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"

namespace wmtp::data {
namespace {

constexpr std::size_t kShown = 20;

}  // namespace

std::string_view name_of(BadCause cause) {
  switch (cause) {
    case BadCause::invalid_json:
      return "invalid JSON";
    case BadCause::invalid_utf8:
      return "invalid UTF-8";
    case BadCause::nul:
      return "NUL character";
    case BadCause::not_an_object:
      return "not an object";
    case BadCause::duplicate_key:
      return "duplicate key";
    case BadCause::integer_range:
      return "integer beyond 64 bits";
    case BadCause::too_long:
      return "line too long";
    case BadCause::too_deep:
      return "nested too deep";
    case BadCause::schema:
      return "wrong field";
    case BadCause::cut_line:
      return "cut last line";
  }
  return "bad line";
}

std::string format_bad_line(std::string_view file, const BadLine& line) {
  return fmt::format("{}:{}:{}: {}", file, line.row + 1, line.column, line.text);
}

void BadLineLog::add(BadLine line) {
  ++total_;
  ++counts_[static_cast<std::size_t>(line.cause)];
  if (first_.size() < kShown) first_.push_back(std::move(line));
}

std::uint64_t BadLineLog::limit_of_patience() const {
  return policy_.on_bad_line == OnBadLine::stop ? kShown - 1 : policy_.max_bad_lines;
}

void BadLineLog::judge(std::uint64_t num_lines) const {
  if (total_ == 0) return;
  if (policy_.on_bad_line == OnBadLine::stop) fail("fix the line or set dataset.on_bad_line: skip");
  if (total_ > policy_.max_bad_lines)
    fail(fmt::format("more than dataset.max_bad_lines: {}", policy_.max_bad_lines));
  const double fraction = static_cast<double>(total_) / static_cast<double>(num_lines);
  if (fraction > policy_.max_bad_fraction)
    fail(fmt::format("{} of {} lines are bad, more than dataset.max_bad_fraction: {}", total_,
                     num_lines, policy_.max_bad_fraction));
}

void BadLineLog::fail(std::string_view why) const {
  std::string fact;
  for (const BadLine& line : first_)
    fact += (fact.empty() ? "" : "\n  ") + format_bad_line(file_, line);
  if (total_ > first_.size())
    fact += fmt::format("\n  and at least {} more", total_ - first_.size());
  throw Error(ErrorKind::data, "data", fact, why);
}

std::string BadLineLog::summary() const {
  std::string text = fmt::format("{} bad line{}", total_, total_ == 1 ? "" : "s");
  const char* separator = ": ";
  for (std::size_t i = 0; i < kNumBadCauses; ++i) {
    if (counts_[i] == 0) continue;
    text += fmt::format("{}{} {}", separator, counts_[i], name_of(static_cast<BadCause>(i)));
    separator = ", ";
  }
  return text;
}

}  // namespace wmtp::data
