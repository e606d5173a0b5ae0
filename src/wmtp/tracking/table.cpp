#include "wmtp/tracking/table.h"

#include <algorithm>
#include <cctype>

#include "wmtp/core/error.h"
#include "wmtp/tracking/terminal_styles.h"

namespace wmtp::tracking {
namespace {

// Numbers, also with a unit behind ("2.1 s", "61 %"), and empty cells.
bool reads_as_number(const std::string& cell) {
  if (cell.empty() || cell == "-") return true;
  const std::size_t sign = cell[0] == '-' || cell[0] == '+' ? 1 : 0;
  return sign < cell.size() && std::isdigit(static_cast<unsigned char>(cell[sign])) &&
         cell.find('/') == std::string::npos;
}

std::string padded(const std::string& cell, std::size_t width, bool right) {
  const std::string blanks(width - display_width(cell), ' ');
  return right ? blanks + cell : cell + blanks;
}

}  // namespace

std::size_t display_width(std::string_view utf8) {
  return static_cast<std::size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

void Table::add_row(std::vector<std::string> cells) {
  WMTP_CHECK(cells.size() == header_.size(), "a row has as many cells as the header");
  rows_.push_back(std::move(cells));
}

std::string Table::text(bool color) const {
  std::vector<std::size_t> widths;
  std::vector<bool> right;
  for (std::size_t i = 0; i < header_.size(); ++i) {
    widths.push_back(display_width(header_[i]));
    right.push_back(!rows_.empty());
    for (const auto& row : rows_) {
      widths[i] = std::max(widths[i], display_width(row[i]));
      right[i] = right[i] && reads_as_number(row[i]);
    }
  }
  auto line = [&](const std::vector<std::string>& cells) {
    std::string out;
    for (std::size_t i = 0; i < cells.size(); ++i)
      out += (i == 0 ? "" : "  ") + padded(cells[i], widths[i], right[i]);
    return out.erase(out.find_last_not_of(' ') + 1);
  };
  std::string out;
  const bool headed =
      std::any_of(header_.begin(), header_.end(), [](const auto& cell) { return !cell.empty(); });
  if (headed) out = (color ? kBoldOn + line(header_) + kStylesOff : line(header_)) + "\n";
  for (const auto& row : rows_) out += line(row) + "\n";
  return out;
}

}  // namespace wmtp::tracking
