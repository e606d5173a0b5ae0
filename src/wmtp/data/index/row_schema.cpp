#include "wmtp/data/index/row_schema.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cstring>

#include "wmtp/data/index/json_scan.h"

namespace wmtp::data {

namespace dom = simdjson::dom;

namespace {

std::string_view type_name(dom::element_type type) {
  switch (type) {
    case dom::element_type::ARRAY:
      return "an array";
    case dom::element_type::OBJECT:
      return "an object";
    case dom::element_type::INT64:
    case dom::element_type::UINT64:
    case dom::element_type::DOUBLE:
      return "a number";
    case dom::element_type::STRING:
      return "a string";
    case dom::element_type::BOOL:
      return "a boolean";
    case dom::element_type::NULL_VALUE:
      return "null";
  }
  return "unknown";
}

BadLine describe(std::string_view line, BadCause cause, std::string_view outer,
                 std::string_view inner, std::string text) {
  const JsonScan scan = scan_json(line);
  if (scan.bad) return *scan.bad;
  return {cause, 0, scan.column_of(outer, inner), std::move(text)};
}

bool has_duplicates(dom::element element, std::vector<std::string_view>& scratch) {
  if (element.is_array()) {
    for (dom::element child : dom::array(element))
      if ((child.is_object() || child.is_array()) && has_duplicates(child, scratch)) return true;
    return false;
  }
  const std::size_t base = scratch.size();
  for (dom::key_value_pair field : dom::object(element)) scratch.push_back(field.key);
  const std::size_t count = scratch.size() - base;
  bool found = false;
  if (count <= 16) {
    for (std::size_t i = base; i < scratch.size() && !found; ++i)
      for (std::size_t j = base; j < i && !found; ++j) found = scratch[i] == scratch[j];
  } else {
    const auto begin = scratch.begin() + static_cast<std::ptrdiff_t>(base);
    std::sort(begin, scratch.end());
    found = std::adjacent_find(begin, scratch.end()) != scratch.end();
  }
  scratch.resize(base);
  if (found) return true;
  for (dom::key_value_pair field : dom::object(element))
    if ((field.value.is_object() || field.value.is_array()) && has_duplicates(field.value, scratch))
      return true;
  return false;
}

}  // namespace

struct RowParser::State {
  dom::parser parser;
  std::string padded;
  std::vector<std::string_view> scratch;

  // The parsed object of a line, or why it is bad.
  std::optional<BadLine> object(const Line& line, dom::object& out) {
    std::string_view text = line.text;
    if (text.empty()) return scan_bad(line);
    if (line.readable_bytes < text.size() + simdjson::SIMDJSON_PADDING) {
      padded.assign(text);
      padded.append(simdjson::SIMDJSON_PADDING, ' ');
      text = std::string_view(padded).substr(0, text.size());
    }
    dom::element element;
    if (parser.parse(text.data(), text.size(), false).get(element)) return scan_bad(line);
    if (!element.is_object())
      return BadLine{BadCause::not_an_object, 0, text.find_first_not_of(" \t") + 1,
                     fmt::format("the line is {}, expected an object", type_name(element.type()))};
    if (has_duplicates(element, scratch)) return scan_bad(line);
    out = dom::object(element);
    return std::nullopt;
  }

  static BadLine scan_bad(const Line& line) {
    JsonScan scan = scan_json(line.text);
    if (!scan.bad) return {BadCause::invalid_json, 0, 1, "invalid JSON"};
    // Only the file's last line can be cut; elsewhere an early end is plain bad JSON.
    if (scan.bad->cause == BadCause::cut_line && !line.last_without_newline)
      scan.bad->cause = BadCause::invalid_json;
    return *scan.bad;
  }
};

RowParser::RowParser() : state_(std::make_unique<State>()) {
  if (state_->parser.allocate(std::size_t{1} << 16, kMaxJsonDepth))
    throw Error(ErrorKind::internal, "data", "no memory for the JSON parser");
}
RowParser::~RowParser() = default;
RowParser::RowParser(RowParser&&) noexcept = default;

namespace {

// Reads the fields of one object into a Row; the first violation wins.
class FieldReader {
 public:
  FieldReader(std::string_view line, Row& row) : line_(line), row_(row) {}

  std::optional<BadLine> bad;

  void top(std::string_view key, dom::element value, KeyCounts& ignored) {
    if (key == "instruction") {
      has_instruction_ = text(key, "", value, row_.instruction);
      if (has_instruction_ && is_blank(row_.instruction))
        refuse(key, "", "\"instruction\" is blank");
    } else if (key == "input") {
      text(key, "", value, row_.input);
    } else if (key == "output") {
      has_output_ = text(key, "", value, row_.output);
    } else if (key == "task_id") {
      std::string_view id;
      if (text(key, "", value, id)) row_.task_id = id;
    } else if (key == "is_correct") {
      reward(value);
    } else if (key == "metadata") {
      metadata(value);
    } else {
      const auto found = ignored.find(key);
      if (found != ignored.end())
        ++found->second;
      else if (ignored.size() < 64)
        ignored.emplace(key, 1);
    }
  }

  void finish() {
    if (bad) return;
    if (!has_instruction_)
      bad = BadLine{BadCause::schema, 0, 1, "\"instruction\" is missing"};
    else if (!has_output_)
      bad = BadLine{BadCause::schema, 0, 1, "\"output\" is missing"};
  }

 private:
  void refuse(std::string_view outer, std::string_view inner, std::string text,
              BadCause cause = BadCause::schema) {
    if (!bad) bad = describe(line_, cause, outer, inner, std::move(text));
  }

  bool text(std::string_view outer, std::string_view inner, dom::element value,
            std::string_view& out) {
    if (!value.is_string()) {
      refuse(outer, inner,
             fmt::format("\"{}\" is {}, expected a string", inner.empty() ? outer : inner,
                         type_name(value.type())));
      return false;
    }
    out = value.get_string().value_unsafe();
    if (std::memchr(out.data(), 0, out.size())) {
      refuse(outer, inner,
             fmt::format("\"{}\" holds a NUL character", inner.empty() ? outer : inner),
             BadCause::nul);
      return false;
    }
    return true;
  }

  void reward(dom::element value) {
    if (value.is_bool()) {
      row_.reward = value.get_bool().value_unsafe() ? 1.0f : 0.0f;
      return;
    }
    if (!value.is_number()) {
      refuse("is_correct", "",
             fmt::format("\"is_correct\" is {}, expected a boolean or a number",
                         type_name(value.type())));
      return;
    }
    const double number = value.get_double().value_unsafe();
    if (!(number >= 0 && number <= 1))
      refuse("is_correct", "", fmt::format("\"is_correct\" is {}, expected 0..1", number));
    row_.reward = static_cast<float>(number);
  }

  void metadata(dom::element value) {
    if (!value.is_object()) {
      refuse("metadata", "",
             fmt::format("\"metadata\" is {}, expected an object", type_name(value.type())));
      return;
    }
    for (dom::key_value_pair field : dom::object(value)) {
      if (field.key == "difficulty") difficulty(field.value);
      if (field.key == "problem_id") {
        std::string_view id;
        if (text("metadata", "problem_id", field.value, id)) row_.problem_id = id;
      }
    }
  }

  void difficulty(dom::element value) {
    std::int64_t number = 0;
    if (!value.is_int64()) {
      refuse("metadata", "difficulty",
             fmt::format("\"difficulty\" is {}, expected an integer", type_name(value.type())));
      return;
    }
    number = value.get_int64().value_unsafe();
    if (number < -32767 || number > 32767)
      refuse("metadata", "difficulty",
             fmt::format("\"difficulty\" is {}, expected -32767..32767", number));
    row_.difficulty = static_cast<std::int16_t>(number);
  }

  std::string_view line_;
  Row& row_;
  bool has_instruction_ = false, has_output_ = false;
};

}  // namespace

std::optional<BadLine> RowParser::parse(const Line& line, Row& row) {
  dom::object object;
  if (auto bad = state_->object(line, object)) return bad;
  row = Row{};
  FieldReader reader(line.text, row);
  for (dom::key_value_pair field : object) reader.top(field.key, field.value, ignored_keys_);
  reader.finish();
  return reader.bad;
}

std::optional<BadLine> RowParser::parse_text(const Line& line, std::string_view column,
                                             std::string_view& text) {
  dom::object object;
  if (auto bad = state_->object(line, object)) return bad;
  dom::element value;
  if (object[column].get(value))
    return BadLine{BadCause::schema, 0, 1, fmt::format("\"{}\" is missing", column)};
  if (!value.is_string())
    return describe(
        line.text, BadCause::schema, column, "",
        fmt::format("\"{}\" is {}, expected a string", column, type_name(value.type())));
  text = value.get_string().value_unsafe();
  if (std::memchr(text.data(), 0, text.size()))
    return describe(line.text, BadCause::nul, column, "",
                    fmt::format("\"{}\" holds a NUL character", column));
  return std::nullopt;
}

std::optional<BadLine> RowParser::keys(const Line& line, std::vector<std::string>& names) {
  dom::object object;
  if (auto bad = state_->object(line, object)) return bad;
  names.clear();
  for (dom::key_value_pair field : object) names.emplace_back(field.key);
  return std::nullopt;
}

namespace {

// Length of `id` without a final _correct_<digits> / _incorrect_<digits>, and the class it names.
std::optional<std::pair<std::size_t, bool>> split_suffix(std::string_view id) {
  std::size_t end = id.size();
  while (end > 0 && id[end - 1] >= '0' && id[end - 1] <= '9') --end;
  if (end == id.size()) return std::nullopt;
  const std::string_view head = id.substr(0, end);
  constexpr std::string_view kWrong = "_incorrect_", kRight = "_correct_";
  if (head.ends_with(kWrong)) return std::pair(head.size() - kWrong.size(), false);
  if (head.ends_with(kRight)) return std::pair(head.size() - kRight.size(), true);
  return std::nullopt;
}

}  // namespace

std::optional<bool> class_of_suffix(std::string_view task_id) {
  const auto split = split_suffix(task_id);
  return split ? std::optional(split->second) : std::nullopt;
}

std::optional<std::string_view> problem_of(const Row& row) {
  if (row.problem_id) return row.problem_id;
  if (!row.task_id) return std::nullopt;
  const auto split = split_suffix(*row.task_id);
  return split ? row.task_id->substr(0, split->first) : *row.task_id;
}

}  // namespace wmtp::data
