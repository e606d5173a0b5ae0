// What a Split (or a Replace) looks for, and what happens to the delimiters.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "wmtp/tokenizer/json_fields.h"
#include "wmtp/tokenizer/text/regex.h"
#include "wmtp/tokenizer/text/split_scanner.h"

namespace wmtp::tokenizer {

struct Found {
  std::size_t begin, end;
  bool is_match;
};

class SplitPattern {
 public:
  explicit SplitPattern(KnownPattern known) : form_(known) {}
  // The `pattern` field of a component: {"String": ..} or {"Regex": ..}.
  explicit SplitPattern(const JsonFields& component);

  // The whole of `text` as matches and what lies between them, in order.
  std::vector<Found> cover(std::string_view text) const;
  std::string replace_all(std::string_view text, std::string_view content) const;

  std::optional<KnownPattern> known() const;
  const std::string& source() const {
    return source_;
  }  // the regular expression or string as given

 private:
  std::optional<ByteSpan> find(std::string_view text, std::size_t from) const;

  std::string source_;
  std::variant<std::string, KnownPattern, Regex> form_;
};

enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
SplitBehavior parse_split_behavior(const JsonFields& component, SplitBehavior fallback);

// The pieces that remain, empty ones left out.
std::vector<ByteSpan> apply_behavior(const std::vector<Found>& cover, SplitBehavior behavior);

// Every character for which `flag` is set is a match of its own.
std::vector<Found> cover_by_flag(std::string_view text, CharFlag flag);

}  // namespace wmtp::tokenizer
