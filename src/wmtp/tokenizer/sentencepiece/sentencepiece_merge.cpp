#include "wmtp/tokenizer/sentencepiece/sentencepiece_merge.h"

#include "wmtp/tokenizer/text/unicode.h"

namespace wmtp::tokenizer {

ScoredMerger::ScoredMerger(std::string_view text,
                           const std::unordered_map<std::string_view, TokenId>& ids,
                           const std::vector<SentencePieceModel::Piece>& pieces)
    : ids_(ids), pieces_(pieces) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = decode_char(text, at).num_bytes;
    const auto index = static_cast<std::int64_t>(symbols_.size());
    symbols_.push_back({text.substr(at, length), index - 1, index + 1});
    at += length;
  }
  if (!symbols_.empty()) symbols_.back().next = -1;
  for (std::size_t i = 0; i < symbols_.size(); ++i) consider(static_cast<std::int64_t>(i));
}

void ScoredMerger::consider(std::int64_t left) {
  if (left < 0) return;
  const Symbol& a = symbols_[static_cast<std::size_t>(left)];
  if (a.next < 0) return;
  const Symbol& b = symbols_[static_cast<std::size_t>(a.next)];
  const std::string_view joined(a.text.data(), a.text.size() + b.text.size());
  const auto found = ids_.find(joined);
  if (found == ids_.end()) return;
  const SentencePieceModel::Piece& piece = pieces_[static_cast<std::size_t>(found->second)];
  agenda_.push({piece.score, left, joined.size()});
  if (piece.type == PieceType::unused) unused_parts_[joined] = {a.text, b.text};
}

void ScoredMerger::run() {
  while (!agenda_.empty()) {
    const Candidate top = agenda_.top();
    agenda_.pop();
    Symbol& left = symbols_[static_cast<std::size_t>(top.left)];
    if (left.text.empty() || left.next < 0) continue;
    Symbol& right = symbols_[static_cast<std::size_t>(left.next)];
    if (left.text.size() + right.text.size() != top.num_bytes) continue;
    left.text = {left.text.data(), top.num_bytes};
    right.text = {};
    left.next = right.next;
    if (left.next >= 0) symbols_[static_cast<std::size_t>(left.next)].previous = top.left;
    consider(left.previous);
    consider(top.left);
  }
}

void ScoredMerger::for_each(const std::function<void(std::string_view)>& use) const {
  for (std::int64_t i = symbols_.empty() ? -1 : 0; i >= 0;
       i = symbols_[static_cast<std::size_t>(i)].next)
    take_apart(symbols_[static_cast<std::size_t>(i)].text, use);
}

// Iterative: a hostile model could nest as deep as a piece is long.
void ScoredMerger::take_apart(std::string_view text,
                              const std::function<void(std::string_view)>& use) const {
  std::vector<std::string_view> pending{text};
  while (!pending.empty()) {
    const std::string_view part = pending.back();
    pending.pop_back();
    const auto found = ids_.find(part);
    const bool is_unused =
        found != ids_.end() &&
        pieces_[static_cast<std::size_t>(found->second)].type == PieceType::unused;
    const auto parts = is_unused ? unused_parts_.find(part) : unused_parts_.end();
    if (parts == unused_parts_.end()) {
      use(part);
      continue;
    }
    pending.push_back(parts->second.second);
    pending.push_back(parts->second.first);
  }
}

}  // namespace wmtp::tokenizer
