// A small table for the console: columns as wide as their widest cell, numbers to the right.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace wmtp::tracking {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}

  // REQUIRES: as many cells as the header has.
  void add_row(std::vector<std::string> cells);
  // Lines end in a line feed and have no trailing blanks; a header of empty cells is not shown.
  std::string text(bool color = false) const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

std::size_t display_width(std::string_view utf8);  // in code points

}  // namespace wmtp::tracking
