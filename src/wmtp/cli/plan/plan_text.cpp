#include <fmt/format.h>

#include <algorithm>

#include "wmtp/cli/plan/plan_result.h"

namespace wmtp::cli {
namespace {

std::string padded(const std::string& text, std::size_t width, bool right) {
  const std::string space(width - std::min(width, text.size()), ' ');
  return right ? space + text : text + space;
}

std::string text_line(const ShownTable& table, const std::vector<std::string>& cells,
                      const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t c = 0; c < cells.size(); ++c)
    line += "  " + padded(cells[c], widths[c], table.columns[c].right);
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

std::string text_of_table(const ShownTable& table) {
  std::vector<std::string> names;
  for (const Column& column : table.columns) names.push_back(column.name);
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < names.size(); ++c) {
    widths.push_back(names[c].size());
    for (const auto& row : table.rows) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text = fmt::format("\n{}\n", table.title) + text_line(table, names, widths);
  for (const auto& row : table.rows) text += text_line(table, row, widths);
  return text;
}

}  // namespace

std::string plan_text(const PlanResult& result) {
  std::string text;
  for (const std::string& line : plan_facts(result)) text += line + "\n";
  for (const ShownTable& table : plan_tables(result)) text += text_of_table(table);
  return text;
}

}  // namespace wmtp::cli
