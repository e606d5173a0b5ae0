#include "wmtp/http/headers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "wmtp/core/error.h"
#include "wmtp/core/planted_fault.h"
#include "wmtp/core/printable.h"

namespace wmtp::http {
namespace {

constexpr std::string_view kTokenMarks = "!#$%&'*+-.^_`|~";
constexpr std::array<std::string_view, 8> kSecretHeaders = {
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "x-amz-security-token",
    "x-aws-ec2-metadata-token",
    "x-amz-server-side-encryption-customer-key",
    "x-auth-token"};

char lower_letter(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_token(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    const char lower = lower_letter(c);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') ||
           kTokenMarks.find(c) != kTokenMarks.npos;
  });
}

bool is_field_value(std::string_view value) {
  return std::ranges::none_of(value, [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F;
  });
}

std::string_view without_blanks(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(" \t") + 1);
}

std::string_view without_line_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

bool same_header_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b,
                            [](char x, char y) { return lower_letter(x) == lower_letter(y); });
}

bool is_secret_header(std::string_view name) {
  return std::ranges::any_of(
      kSecretHeaders, [&](std::string_view secret) { return same_header_name(name, secret); });
}

Headers::Headers(std::initializer_list<Field> fields) {
  for (const auto& [name, value] : fields) add(name, value);
}

void Headers::add(std::string_view name, std::string_view value) {
  if (!is_token(name))
    throw Error(ErrorKind::config, "http",
                fmt::format("\"{}\" is no name of a header", printable(name)),
                "letters, digits and a few marks, no blanks and no colon");
  if (!is_field_value(value))
    throw Error(ErrorKind::config, "http",
                fmt::format("the value of the header {} has a control character in it", name),
                "a line end at the end of a token or password is a common cause");
  fields_.emplace_back(name, without_blanks(value));
}

void Headers::set(std::string_view name, std::string_view value) {
  remove(name);
  add(name, value);
}

void Headers::remove(std::string_view name) {
  std::erase_if(fields_, [&](const Field& field) { return same_header_name(field.first, name); });
}

bool Headers::has(std::string_view name) const {
  return std::ranges::any_of(
      fields_, [&](const Field& field) { return same_header_name(field.first, name); });
}

std::optional<std::string> Headers::find(std::string_view name) const {
  std::optional<std::string> found;
  for (const auto& [key, value] : fields_)
    if (same_header_name(key, name)) {
      if (found) found->append(", ").append(value);
      if (!found) found = value;
    }
  return found;
}

std::string_view HeadReader::take(std::string_view line) {
  if (state_ == State::complete) return "";
  num_bytes_ += line.size();
  ++num_lines_;
  if (is_too_large()) return "has a head of more than 64 KiB or 1000 lines";
  line = without_line_end(line);
  if (state_ == State::status) return take_status(line);
  if (!line.empty()) return take_field(line);
  // An interim answer is over; the next line begins the one that counts.
  state_ = status_ >= 200 || status_ == 101 ? State::complete : State::status;
  return "";
}

std::string_view HeadReader::take_status(std::string_view line) {
  // HTTP/1.1 200 OK
  constexpr std::size_t kVersionBytes = 9, kStatusBytes = 12;
  const bool is_http1 = line.starts_with("HTTP/1.0 ") || line.starts_with("HTTP/1.1 ");
  if (!is_http1 || line.size() + planted_off_by_one < kStatusBytes)
    return "does not begin with a status line of HTTP/1.1";
  int status = 0;
  for (std::size_t at = kVersionBytes; at < kStatusBytes; ++at) {
    if (line[at] < '0' || line[at] > '9') return "has a status that is no number of three digits";
    status = status * 10 + (line[at] - '0');
  }
  if (line.size() > kStatusBytes && line[kStatusBytes] != ' ')
    return "has a status that is no number of three digits";
  if (status < 100) return "has a status below 100";
  status_ = status;
  headers_ = Headers();
  state_ = State::fields;
  return "";
}

std::string_view HeadReader::take_field(std::string_view line) {
  if (line.front() == ' ' || line.front() == '\t')
    return "has a header that goes on in the next line";
  const std::size_t colon = line.find(':');
  if (colon == line.npos || !is_token(line.substr(0, colon)))
    return "has a header line without a name";
  if (!is_field_value(line.substr(colon + 1))) return "has a control character in a header";
  headers_.add(line.substr(0, colon), line.substr(colon + 1));
  return "";
}

std::optional<unsigned long long> parse_decimal(std::string_view text) {
  unsigned long long number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const std::size_t dash = text.find('-'), slash = text.find('/');
  if (dash == text.npos || slash == text.npos || slash < dash) return std::nullopt;
  const auto first = parse_decimal(text.substr(0, dash));
  const auto last = parse_decimal(text.substr(dash + 1, slash - dash - 1));
  if (!first || !last || *last < *first) return std::nullopt;
  ContentRange range{*first, *last, std::nullopt};
  const std::string_view total = text.substr(slash + 1);
  if (total == "*") return range;
  range.total = parse_decimal(total);
  if (!range.total || *range.total <= *last) return std::nullopt;
  return range;
}

}  // namespace wmtp::http
