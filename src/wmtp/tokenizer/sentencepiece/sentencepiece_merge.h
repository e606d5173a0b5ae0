// SentencePiece's BPE on one stretch of normalised text: the adjacent pair whose concatenation has
// the highest score is merged, leftmost on a tie.
#pragma once
#include <functional>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "wmtp/tokenizer/sentencepiece/sentencepiece.h"

namespace wmtp::tokenizer {

// BORROWS everything it is given.
class ScoredMerger {
 public:
  ScoredMerger(std::string_view text, const std::unordered_map<std::string_view, TokenId>& ids,
               const std::vector<SentencePieceModel::Piece>& pieces);
  void run();
  // The symbols left, in order; unused pieces are taken apart into what they were merged from.
  void for_each(const std::function<void(std::string_view)>& use) const;

 private:
  struct Symbol {
    std::string_view text;        // empty: merged into its left neighbour
    std::int64_t previous, next;  // -1 = none
  };
  struct Candidate {
    float score;
    std::int64_t left;
    std::size_t num_bytes;
    bool operator<(const Candidate& other) const {
      return score != other.score ? score < other.score : left > other.left;
    }
  };

  void consider(std::int64_t left);
  void take_apart(std::string_view text, const std::function<void(std::string_view)>& use) const;

  const std::unordered_map<std::string_view, TokenId>& ids_;
  const std::vector<SentencePieceModel::Piece>& pieces_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> agenda_;
  std::unordered_map<std::string_view, std::pair<std::string_view, std::string_view>> unused_parts_;
};

}  // namespace wmtp::tokenizer
