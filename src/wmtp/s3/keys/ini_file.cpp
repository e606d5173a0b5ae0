#include "wmtp/s3/keys/ini_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/core/printable.h"
#include "wmtp/core/utf8.h"

namespace wmtp::s3 {
namespace {

constexpr std::string_view kIniBlanks = " \t\r";

std::string_view trimmed_line(std::string_view line) {
  const std::size_t begin = std::min(line.find_first_not_of(kIniBlanks), line.size());
  line.remove_prefix(begin);
  return line.substr(0, line.find_last_not_of(kIniBlanks) + 1);
}

struct IniPlace {
  std::string_view name;
  int line = 0;

  [[noreturn]] void refuse(std::string_view fact, std::string_view hint = {}) const {
    throw Error(ErrorKind::config, "s3", fmt::format("{}:{}: {}", printable(name), line, fact),
                hint);
  }
};

IniSection& begin_section(IniFile& file, std::string_view line, const IniPlace& place) {
  if (!line.ends_with(']')) place.refuse("a [ without a ]");
  const std::string_view name = trimmed_line(line.substr(1, line.size() - 2));
  if (name.empty()) place.refuse("a section without a name");
  const auto [section, is_new] = file.emplace(name, IniSection());
  if (!is_new)
    place.refuse(fmt::format("the section \"{}\" is there twice", printable(name)),
                 "AWS's tools refuse this too; put both into one");
  return section->second;
}

void add_key(IniSection& section, std::string_view line, const IniPlace& place) {
  const std::size_t equals = line.find('=');
  // Not even the part before is shown: a line without "=" may be a key that was pasted.
  if (equals == line.npos) place.refuse("neither a [section] nor name = value");
  std::string key(trimmed_line(line.substr(0, equals)));
  if (key.empty()) place.refuse("a value without a name");
  for (char& c : key)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const bool is_new = section.emplace(key, trimmed_line(line.substr(equals + 1))).second;
  if (!is_new) place.refuse(fmt::format("\"{}\" is there twice in its section", printable(key)));
}

}  // namespace

IniFile parse_ini(std::string_view text, std::string_view name) {
  IniPlace place{name};
  if (text.size() > kMaxIniBytes)
    place.refuse(fmt::format("{} bytes, more than {}", text.size(), kMaxIniBytes));
  if (find_invalid_utf8(text)) place.refuse("the file is no UTF-8 text");
  if (text.find('\0') != text.npos) place.refuse("the file has a NUL in it");
  IniFile file;
  IniSection* section = nullptr;
  while (!text.empty()) {
    ++place.line;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view words = trimmed_line(line);
    if (words.empty() || words.front() == '#' || words.front() == ';') continue;
    const bool is_indented = line.front() == ' ' || line.front() == '\t';
    if (words.front() == '[' && !is_indented) {
      section = &begin_section(file, words, place);
    } else if (!section) {
      place.refuse("a line before the first [section]");
    } else if (!is_indented) {
      add_key(*section, words, place);
    }
  }
  return file;
}

}  // namespace wmtp::s3
