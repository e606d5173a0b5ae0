#include "wmtp/tokenizer/bpe/added_tokens.h"

#include <algorithm>
#include <numeric>

#include "wmtp/tokenizer/text/unicode.h"

namespace wmtp::tokenizer {
namespace {

bool ends_in_word(std::string_view text) {
  return !text.empty() &&
         (CharTable::instance()[decode_char_before(text, text.size()).code] & kWordChar) != 0;
}

bool begins_with_word(std::string_view text) {
  return !text.empty() && (CharTable::instance()[decode_char(text, 0).code] & kWordChar) != 0;
}

std::size_t trailing_space_begin(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    const DecodedChar c = decode_char_before(text, end);
    if (!is_white_space(c.code)) break;
    end -= c.num_bytes;
  }
  return end;
}

std::size_t leading_space_end(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const DecodedChar c = decode_char(text, at);
    if (!is_white_space(c.code)) break;
    at += c.num_bytes;
  }
  return at;
}

// One pass over a text. `done_` is the end of what has been handed out.
class Walk {
 public:
  explicit Walk(std::string_view text) : text_(text) {}

  bool accepts(const TokenMatch& match) const {
    return !match.token->single_word || (!ends_in_word(text_.substr(0, match.begin)) &&
                                         !begins_with_word(text_.substr(match.end)));
  }

  void take(const TokenMatch& match) {
    std::size_t begin = match.begin, end = match.end;
    if (match.token->lstrip) begin = std::max(trailing_space_begin(text_.substr(0, begin)), done_);
    if (match.token->rstrip) end = leading_space_end(text_, end);
    add_text(begin);
    sections_.push_back({begin, end, match.token->id});
    done_ = end;
  }

  void add_text(std::size_t end) {
    if (done_ < end) sections_.push_back({done_, end, -1});
  }

  std::vector<Section> finish() {
    add_text(text_.size());
    return std::move(sections_);
  }

 private:
  std::string_view text_;
  std::size_t done_ = 0;
  std::vector<Section> sections_;
};

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens,
                                     std::vector<std::string> contents) {
  std::vector<std::size_t> order(tokens.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return contents[a] < contents[b]; });
  for (const std::size_t i : order) {
    if (contents[i].empty()) continue;
    if (!contents_.empty() && contents_.back() == contents[i]) continue;
    first_bytes_.set(static_cast<unsigned char>(contents[i][0]));
    all_special_ = all_special_ && tokens[i].special;
    tokens_.push_back(std::move(tokens[i]));
    contents_.push_back(std::move(contents[i]));
  }
}

// Narrows the sorted list byte by byte; a content that ends where the text goes on stands first in
// its range.
const AddedToken* AddedTokenMatcher::longest_at(std::string_view text, std::size_t at,
                                                std::size_t* length) const {
  std::size_t low = 0, high = contents_.size();
  const AddedToken* best = nullptr;
  for (std::size_t depth = 0; low < high; ++depth) {
    if (contents_[low].size() == depth) {
      best = depth > 0 ? &tokens_[low] : nullptr;
      *length = depth;
      if (++low == high) break;
    }
    if (at + depth >= text.size()) break;
    const auto wanted = static_cast<unsigned char>(text[at + depth]);
    const auto byte_of = [&](const std::string& content) {
      return static_cast<unsigned char>(content[depth]);
    };
    const auto first = contents_.begin() + static_cast<std::ptrdiff_t>(low);
    const auto last = contents_.begin() + static_cast<std::ptrdiff_t>(high);
    const auto begin =
        std::partition_point(first, last, [&](const auto& c) { return byte_of(c) < wanted; });
    const auto end =
        std::partition_point(begin, last, [&](const auto& c) { return byte_of(c) == wanted; });
    low = static_cast<std::size_t>(begin - contents_.begin());
    high = static_cast<std::size_t>(end - contents_.begin());
  }
  return best;
}

TokenMatch AddedTokenMatcher::find(std::string_view text, std::size_t from) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!first_bytes_[static_cast<unsigned char>(text[at])]) continue;
    std::size_t length = 0;
    if (const AddedToken* token = longest_at(text, at, &length)) return {at, at + length, token};
  }
  return {};
}

std::vector<Section> AddedTokenMatcher::split(std::string_view text, bool allow_special,
                                              std::span<const TokenMatch> fixed) const {
  Walk walk(text);
  const bool nothing_to_find = empty() || (all_special_ && !allow_special);
  const auto search = [&](std::size_t from, std::size_t until) {
    if (nothing_to_find) return;
    const std::string_view part = text.substr(0, until);
    for (TokenMatch match = find(part, from); match.token; match = find(part, match.end))
      if ((allow_special || !match.token->special) && walk.accepts(match)) walk.take(match);
  };
  std::size_t from = 0;
  for (const TokenMatch& match : fixed) {
    search(from, match.begin);
    walk.take(match);
    from = match.end;
  }
  search(from, text.size());
  return walk.finish();
}

}  // namespace wmtp::tokenizer
