// Header fields of requests and responses, and the reader of a response's head.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace wmtp::http {

// Of one answer, interim ones before it included.
inline constexpr std::size_t kMaxHeadBytes = std::size_t{64} << 10, kMaxHeadLines = 1000;

// Names are compared without regard to case and kept as they were written, in their order.
class Headers {
 public:
  using Field = std::pair<std::string, std::string>;
  Headers() = default;
  Headers(std::initializer_list<Field> fields);

  // Error config where name or value cannot stand in a header line. The value is not repeated: it
  // may be a secret.
  void add(std::string_view name, std::string_view value);
  void set(std::string_view name, std::string_view value);  // instead of all others of this name
  void remove(std::string_view name);
  bool has(std::string_view name) const;
  // The values of this name, joined by ", "; nothing: there is none.
  std::optional<std::string> find(std::string_view name) const;

  const std::vector<Field>& fields() const { return fields_; }
  bool empty() const { return fields_.empty(); }

 private:
  std::vector<Field> fields_;
};

bool same_header_name(std::string_view a, std::string_view b);
// Authorization, cookies, tokens: values that no text for people may hold.
bool is_secret_header(std::string_view name);

// Takes the lines of a response as they arrive. Interim answers (1xx) are read over; lines that
// follow the head (trailers of a chunked body) are ignored.
class HeadReader {
 public:
  // With or without its line end. Returns why the line cannot be part of a head, or "".
  std::string_view take(std::string_view line);

  bool is_complete() const { return state_ == State::complete; }  // of a final answer
  bool is_too_large() const { return num_bytes_ > kMaxHeadBytes || num_lines_ > kMaxHeadLines; }
  int status() const { return status_; }
  Headers& headers() { return headers_; }
  const Headers& headers() const { return headers_; }

 private:
  std::string_view take_status(std::string_view line);
  std::string_view take_field(std::string_view line);

  enum class State { status, fields, complete };
  State state_ = State::status;
  int status_ = 0;
  std::size_t num_bytes_ = 0, num_lines_ = 0;
  Headers headers_;
};

// Content-Range: bytes first-last/total.
struct ContentRange {
  unsigned long long first = 0, last = 0;
  std::optional<unsigned long long> total;  // nothing: "*"
};
std::optional<ContentRange> parse_content_range(std::string_view text);
// A decimal number without sign or blanks that fits; nothing otherwise.
std::optional<unsigned long long> parse_decimal(std::string_view text);

}  // namespace wmtp::http
