// SentencePiece tokenizer.model with a BPE model. CONTROL pieces are never matched in text and
// USER_DEFINED ones always are, as in the sentencepiece package: EncodeOptions::allow_special and
// special_spans change nothing here.
#pragma once
#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "wmtp/tokenizer/bpe/added_tokens.h"
#include "wmtp/tokenizer/bpe/hf_tokenizer.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::tokenizer {

inline constexpr std::size_t kMaxSentencePieceBytes = std::size_t{64} << 20;

enum class PieceType {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

struct SentencePieceModel {
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::normal;
  };
  std::vector<Piece> pieces;  // id = index
  bool byte_fallback = false;
  std::string bos_piece = "<s>", eos_piece = "</s>", unk_surface = " \u2047 ";
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
};

// Error data: damaged or beyond the limits; Error config: not BPE, or with rules that are not
// supported.
SentencePieceModel read_sentencepiece(std::string_view bytes, const std::string& file);

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(SentencePieceModel model, const TokenizerSettings& settings,
                         std::string_view file_bytes);

  using Tokenizer::encode;
  void encode(std::string_view text, const EncodeOptions& options,
              std::vector<TokenId>& out) const override;
  std::string decode(std::span<const TokenId> ids, bool skip_special) const override;
  std::string_view kind() const override { return "sentencepiece/bpe"; }
  std::int64_t vocab_size() const override {
    return static_cast<std::int64_t>(model_.pieces.size());
  }
  std::string piece(TokenId id) const override;
  std::optional<TokenId> id_of(std::string_view piece) const override;
  std::optional<TokenId> bos_id() const override { return bos_id_; }
  std::optional<TokenId> eos_id() const override { return eos_id_; }
  std::optional<TokenId> pad_id() const override { return pad_id_; }
  bool adds_bos() const override { return adds_bos_; }
  const std::string& fingerprint() const override { return fingerprint_; }
  TokenizerDescription describe() const override;

 private:
  using PieceIds = std::unordered_map<std::string_view, TokenId>;

  const SentencePieceModel::Piece& checked_piece(TokenId id) const;
  void index_pieces();
  bool is_separable() const;
  std::string normalize(std::string_view text) const;
  void encode_segment(std::string_view segment, std::vector<TokenId>& out) const;
  void encode_word(std::string_view word, std::vector<TokenId>& out) const;
  void emit(std::string_view symbol, std::vector<TokenId>& out) const;
  std::string surface_of(TokenId id, bool at_start, bool* took_space) const;
  std::optional<TokenId> control_id(const std::string& piece) const;

  SentencePieceModel model_;
  PieceIds mergeable_;  // normal, user-defined and unused pieces
  PieceIds reserved_;   // unknown, control, byte
  AddedTokenMatcher user_defined_;
  std::array<TokenId, 256> byte_ids_{};
  TokenId unk_id_ = 0;
  std::uint64_t number_;
  bool separable_ = false, has_unused_ = false;
  std::optional<TokenId> bos_id_, eos_id_, pad_id_;
  bool adds_bos_ = false, adds_eos_ = false;
  std::string fingerprint_;
};

}  // namespace wmtp::tokenizer
