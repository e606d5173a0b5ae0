// The schema table: one row per key, from which parsing, checks, printing, the JSON Schema and
// docs/config.md are made. Rows are in the table_*.cpp files; a row's default is the initial value
// of the member it is bound to.
#pragma once
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wmtp/config/config.h"
#include "wmtp/config/load.h"
#include "wmtp/config/yaml/node.h"
#include "wmtp/config/yaml/problems.h"

namespace wmtp::config {

struct Range {
  double lo = -std::numeric_limits<double>::infinity();
  double hi = std::numeric_limits<double>::infinity();
  bool lo_open = false, hi_open = false;

  bool holds(double value) const;
  std::string text() const;  // "[0, 1)", "> 0", ">= 1"; empty without bounds
};

struct TypeInfo {
  std::string name;  // "int", "float or null", "a | b"
  bool nullable = false;
  bool path = false;                 // `~/` is expanded, environment values are shown
  bool text = false;                 // an override takes the text after `=` as it stands
  bool text_items = false;           // so do the items of the list
  std::vector<std::string> choices;  // of an enum
};

struct Row {
  std::string key, help;
  TypeInfo type;
  Range range;
  ResumeClass resume = ResumeClass::same;
  bool required = false;
  bool available = true;                  // false: only the default is accepted in this version
  std::vector<std::string> later_values;  // of an available enum: values refused in this version
  std::vector<std::pair<std::string, std::string>> spellings;  // accepted -> main name
  bool any_case = false;
  bool input = false;        // a path that must exist
  bool agreed = true;        // part of what ranks compare
  std::string default_note;  // where the default depends on other keys

  std::function<bool(Config&, const Node&, const Row&, Problems&)> assign;
  std::function<OrderedJson(const Config&)> value;
  std::function<OrderedJson(const Row&)> json_schema;

  Row& free() { return resume = ResumeClass::free, *this; }
  Row& host() { return resume = ResumeClass::host, *this; }
  Row& needed() { return required = true, *this; }
  Row& unavailable() { return available = false, *this; }  // nothing acts on this key yet
  Row& unavailable(std::vector<std::string> values) {
    return later_values = std::move(values), *this;
  }
  Row& at_least(double lo) { return range.lo = lo, *this; }
  Row& above(double lo) { return range.lo = lo, range.lo_open = true, *this; }
  Row& between(double lo, double hi) { return range.lo = lo, range.hi = hi, *this; }
  Row& below(double hi) { return range.hi = hi, range.hi_open = true, *this; }
  Row& must_exist() { return input = true, *this; }
  Row& per_rank() { return agreed = false, *this; }  // each rank may have its own
  Row& default_is(std::string note) { return default_note = std::move(note), *this; }
  Row& with_aliases(std::vector<std::pair<std::string, std::string>> names) {
    return spellings = std::move(names), *this;
  }
  Row& in_any_case() { return any_case = true, *this; }
};

class Schema {
 public:
  Schema();
  const std::vector<Row>& rows() const { return rows_; }
  const Row* find(std::string_view key) const;
  std::size_t index(const Row& row) const { return static_cast<std::size_t>(&row - rows_.data()); }
  bool is_section(std::string_view path) const { return sections_.contains(path); }
  const std::string& section_help(std::string_view path) const {
    return sections_.find(path)->second;
  }
  std::vector<std::string> children(std::string_view section) const;  // names, in order; "" = top
  OrderedJson default_of(const Row& row) const { return row.value(defaults_); }
  std::vector<std::string> keys_and_sections() const;

 private:
  std::vector<Row> rows_;
  std::map<std::string, std::size_t, std::less<>> by_key_;
  std::map<std::string, std::string, std::less<>> sections_;
  Config defaults_;
};

const Schema& schema();

}  // namespace wmtp::config
