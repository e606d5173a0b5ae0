// The BPE model of a tokenizer.json: pieces of pre-tokenized text to ids.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "wmtp/tokenizer/bpe/pair_table.h"
#include "wmtp/tokenizer/bpe/piece_cache.h"
#include "wmtp/tokenizer/text/split_scanner.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::tokenizer {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};
using Vocabulary = std::unordered_map<std::string, TokenId, StringHash, std::equal_to<>>;

struct BpeConfig {
  Vocabulary vocab;
  std::vector<std::pair<std::string, std::string>> merges;  // rank = position
  std::optional<std::string> unk_token;
  std::string continuing_subword_prefix, end_of_word_suffix;
  bool fuse_unk = false, byte_fallback = false, ignore_merges = false;
};

class BpeModel {
 public:
  // Error data where a merge or unk_token names a token the vocabulary lacks.
  BpeModel(BpeConfig config, std::string_view file);

  // Ids of one piece (not empty) of pre-tokenized text, appended to `out`. THREADS: safe.
  void encode(std::string_view piece, std::vector<TokenId>& out) const;

  // The same for all pieces of `text` under a known split pattern. REQUIRES use_raw_bytes().
  void encode_split(std::string_view text, KnownPattern pattern, std::vector<TokenId>& out) const;

  // Switches the model to raw bytes: from now on pieces are given as the text's own bytes instead
  // of the ByteLevel alphabet's characters. False (and no change) where the vocabulary does not
  // allow it.
  bool use_raw_bytes();

  const Vocabulary& vocab() const { return config_.vocab; }
  bool byte_fallback() const { return config_.byte_fallback; }

 private:
  void build_merges(std::string_view file);
  void build_tables();
  bool is_separable() const;
  void encode_word(std::string_view word, std::size_t readable_bytes, PieceCache& cache,
                   std::vector<TokenId>& out) const;
  void encode_uncached(std::string_view word, std::vector<TokenId>& ids) const;
  void first_symbols(std::string_view word, std::vector<TokenId>& ids) const;
  std::optional<TokenId> symbol_id(std::string_view character, bool is_first, bool is_last) const;

  BpeConfig config_;
  std::uint64_t number_;  // of this model in the process, for the caches
  PairTable merges_;
  std::optional<TokenId> unk_id_;
  std::vector<TokenId> bmp_ids_;  // single characters below U+10000; -1 = not in the vocabulary
  std::array<TokenId, 256> byte_ids_;  // raw bytes, or <0xHH> for byte_fallback; -1 = missing
  bool raw_bytes_ = false;
  bool separable_ = false;  // words can be encoded one by one (see is_separable)
  Vocabulary raw_vocab_;    // whole pieces in raw bytes, for ignore_merges
};

}  // namespace wmtp::tokenizer
