#include "wmtp/tokenizer/text/split_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace wmtp::tokenizer {
namespace {

std::variant<std::string, KnownPattern, Regex> make_form(const JsonFields& component,
                                                         std::string& source) {
  const JsonFields pattern = component.child("pattern");
  if (const auto literal = pattern.optional_string("String")) {
    source = *literal;
    return *literal;
  }
  source = pattern.string("Regex");
  if (const auto known = known_pattern(source)) return *known;
  return Regex(source, component.file());
}

// Delimiters join the piece on one side.
std::vector<ByteSpan> merge_delimiters(const std::vector<Found>& cover, bool with_next) {
  std::vector<ByteSpan> pieces;
  bool previous_match = false;
  const auto add = [&](const Found& found) {
    if (found.is_match && !previous_match && !pieces.empty()) {
      if (with_next)
        pieces.back().begin = found.begin;
      else
        pieces.back().end = found.end;
    } else {
      pieces.push_back({found.begin, found.end});
    }
    previous_match = found.is_match;
  };
  if (with_next) {
    std::for_each(cover.rbegin(), cover.rend(), add);
    std::reverse(pieces.begin(), pieces.end());
  } else {
    std::for_each(cover.begin(), cover.end(), add);
  }
  return pieces;
}

std::vector<ByteSpan> join_contiguous(const std::vector<Found>& cover) {
  std::vector<ByteSpan> pieces;
  bool previous_match = false;
  for (const Found& found : cover) {
    if (found.is_match == previous_match && !pieces.empty())
      pieces.back().end = found.end;
    else
      pieces.push_back({found.begin, found.end});
    previous_match = found.is_match;
  }
  return pieces;
}

}  // namespace

SplitPattern::SplitPattern(const JsonFields& component) : form_(make_form(component, source_)) {}

std::optional<KnownPattern> SplitPattern::known() const {
  const KnownPattern* known = std::get_if<KnownPattern>(&form_);
  return known ? std::optional(*known) : std::nullopt;
}

std::optional<ByteSpan> SplitPattern::find(std::string_view text, std::size_t from) const {
  if (const auto* regex = std::get_if<Regex>(&form_)) return regex->find(text, from);
  if (const auto* known = std::get_if<KnownPattern>(&form_)) {
    if (from >= text.size()) return std::nullopt;
    return ByteSpan{from, SplitScanner(text, *known).next(from)};
  }
  const std::string& literal = std::get<std::string>(form_);
  const std::size_t at = literal.empty() ? std::string_view::npos : text.find(literal, from);
  if (at == std::string_view::npos) return std::nullopt;
  return ByteSpan{at, at + literal.size()};
}

// Empty matches count, but not directly behind another match; the search then moves on by a
// character. Of the text only offsets are handed out.
std::vector<Found> SplitPattern::cover(std::string_view text) const {
  std::string prepared;
  if (const auto* regex = std::get_if<Regex>(&form_)) text = prepared = regex->prepare(text);
  std::vector<Found> result;
  std::size_t done = 0, from = 0;
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t last_match_end = kNone;
  while (from <= text.size()) {
    const std::optional<ByteSpan> match = find(text, from);
    if (!match) break;
    const bool is_empty = match->begin == match->end;
    if (is_empty && last_match_end == match->end) {
      if (match->end >= text.size()) break;
      from = match->end + decode_char(text, match->end).num_bytes;
      last_match_end = kNone;
      continue;
    }
    if (done < match->begin) result.push_back({done, match->begin, false});
    result.push_back({match->begin, match->end, true});
    done = from = match->end;
    last_match_end = match->end;
    if (is_empty) {
      if (from >= text.size()) break;
      from += decode_char(text, from).num_bytes;
    }
  }
  if (done < text.size()) result.push_back({done, text.size(), false});
  return result;
}

std::string SplitPattern::replace_all(std::string_view text, std::string_view content) const {
  std::string out;
  out.reserve(text.size());
  for (const Found& found : cover(text))
    out += found.is_match ? content : text.substr(found.begin, found.end - found.begin);
  return out;
}

SplitBehavior parse_split_behavior(const JsonFields& component, SplitBehavior fallback) {
  const std::optional<std::string> name = component.optional_string("behavior");
  if (!name) return fallback;
  constexpr std::array<std::string_view, 5> kNames{"Removed", "Isolated", "MergedWithPrevious",
                                                   "MergedWithNext", "Contiguous"};
  const auto found = std::find(kNames.begin(), kNames.end(), *name);
  if (found == kNames.end())
    component.unsupported(fmt::format("has the unknown behavior '{}'", *name));
  return static_cast<SplitBehavior>(found - kNames.begin());
}

std::vector<ByteSpan> apply_behavior(const std::vector<Found>& cover, SplitBehavior behavior) {
  std::vector<ByteSpan> pieces;
  if (behavior == SplitBehavior::contiguous)
    pieces = join_contiguous(cover);
  else if (behavior == SplitBehavior::merged_with_next)
    pieces = merge_delimiters(cover, true);
  else if (behavior == SplitBehavior::merged_with_previous)
    pieces = merge_delimiters(cover, false);
  else
    for (const Found& found : cover)
      if (behavior == SplitBehavior::isolated || !found.is_match)
        pieces.push_back({found.begin, found.end});
  std::erase_if(pieces, [](const ByteSpan& piece) { return piece.begin == piece.end; });
  return pieces;
}

std::vector<Found> cover_by_flag(std::string_view text, CharFlag flag) {
  const CharTable& table = CharTable::instance();
  std::vector<Found> result;
  for (std::size_t at = 0; at < text.size();) {
    const DecodedChar c = decode_char(text, at);
    const std::size_t end = at + c.num_bytes;
    const bool is_match = (table[c.code] & flag) != 0;
    if (!is_match && !result.empty() && !result.back().is_match)
      result.back().end = end;
    else
      result.push_back({at, end, is_match});
    at = end;
  }
  return result;
}

}  // namespace wmtp::tokenizer
