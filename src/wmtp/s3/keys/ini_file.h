// The profile files of AWS's tools: ~/.aws/credentials and ~/.aws/config.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace wmtp::s3 {

inline constexpr std::size_t kMaxIniBytes = std::size_t{1} << 20;

// Sections by name, their keys in lower case. Values may be secrets: no error repeats one. Lines
// that are indented below a key without a value (s3 = ...) are settings of other tools and left
// out.
using IniSection = std::map<std::string, std::string>;
using IniFile = std::map<std::string, IniSection>;

// Error config with "name:line: fact" where the text is none; a section or key that is there twice
// is refused, as by AWS's tools.
IniFile parse_ini(std::string_view text, std::string_view name);

}  // namespace wmtp::s3
