// One JSONL line as an instruction row or as a text document.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "wmtp/data/index/bad_lines.h"
#include "wmtp/data/index/line_chunks.h"

namespace wmtp::data {

struct Row {
  std::string_view instruction, input, output;
  std::optional<std::string_view> task_id, problem_id;
  std::optional<float> reward;  // is_correct, 0..1
  std::optional<std::int16_t> difficulty;
  bool correct() const { return !reward || *reward >= 0.5f; }
};

// How often each top-level key that nothing reads was seen.
using KeyCounts = std::map<std::string, std::uint64_t, std::less<>>;

// Reads lines with one reused buffer. THREADS: one parser per thread.
class RowParser {
 public:
  RowParser();
  ~RowParser();
  RowParser(RowParser&&) noexcept;

  // The row's views are valid until the next call. A bad line leaves `row` unspecified.
  std::optional<BadLine> parse(const Line& line, Row& row);
  // The string at `column` of the object; other keys are not looked at.
  std::optional<BadLine> parse_text(const Line& line, std::string_view column,
                                    std::string_view& text);
  // The top-level keys of a line, for messages and for telling formats apart.
  std::optional<BadLine> keys(const Line& line, std::vector<std::string>& names);

  const KeyCounts& ignored_keys() const { return ignored_keys_; }

 private:
  struct State;
  std::unique_ptr<State> state_;
  KeyCounts ignored_keys_;
};

// metadata.problem_id; else task_id without a final _correct_<digits> or _incorrect_<digits>; else
// task_id; none without either: the row stands alone.
std::optional<std::string_view> problem_of(const Row& row);
// The class a task_id suffix claims, if it has one.
std::optional<bool> class_of_suffix(std::string_view task_id);

}  // namespace wmtp::data
