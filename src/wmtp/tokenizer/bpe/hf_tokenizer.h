// Hugging Face tokenizer.json with a BPE model.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "wmtp/tokenizer/bpe/added_tokens.h"
#include "wmtp/tokenizer/bpe/bpe_model.h"
#include "wmtp/tokenizer/bpe/decoder.h"
#include "wmtp/tokenizer/bpe/pre_tokenizer.h"
#include "wmtp/tokenizer/text/normalizer.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::tokenizer {

inline constexpr std::size_t kMaxTokenizerJsonBytes = std::size_t{128} << 20;

// What tokenizer_config.json says; nothing where it is absent or silent.
struct TokenizerSettings {
  std::optional<std::string> bos_token, eos_token, pad_token;
  std::optional<bool> add_bos_token, add_eos_token;
};

// Ids a post-processor puts around the text.
struct SpecialFrame {
  std::vector<TokenId> before, after;
};

// The parts of a tokenizer.json, read and checked (hf_loader.cpp).
struct HfParts {
  std::unique_ptr<BpeModel> model;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Decoder decoder;
  SpecialFrame frame;
  std::vector<AddedToken> added_tokens;  // in the file's order
};
// Error data: damaged or beyond the limits; Error config: well formed but unsupported, by name.
HfParts read_hf_parts(std::string_view json_text, const std::string& file);
HfParts hf_parts_of(const Json& json, const std::string& file);  // already parsed

class HfTokenizer final : public Tokenizer {
 public:
  HfTokenizer(HfParts parts, const TokenizerSettings& settings, std::string_view file_bytes);

  using Tokenizer::encode;
  void encode(std::string_view text, const EncodeOptions& options,
              std::vector<TokenId>& out) const override;
  std::string decode(std::span<const TokenId> ids, bool skip_special) const override;
  std::string_view kind() const override { return kind_; }
  std::int64_t vocab_size() const override { return vocab_size_; }
  std::string piece(TokenId id) const override;
  std::optional<TokenId> id_of(std::string_view piece) const override;
  std::optional<TokenId> bos_id() const override { return bos_id_; }
  std::optional<TokenId> eos_id() const override { return eos_id_; }
  std::optional<TokenId> pad_id() const override { return pad_id_; }
  bool adds_bos() const override;
  const std::string& fingerprint() const override { return fingerprint_; }
  TokenizerDescription describe() const override;

 private:
  void encode_section(std::string_view raw, bool at_start, bool allow_special,
                      std::vector<TokenId>& out) const;
  void encode_normalized(std::string_view text, bool at_start, std::vector<TokenId>& out) const;
  std::vector<TokenMatch> fixed_matches(std::string_view text,
                                        std::span<const ByteSpan> spans) const;
  void build_matchers();
  void choose_special_ids(const TokenizerSettings& settings);

  // An added token as decode() shows it.
  struct ShownToken {
    std::string text;  // what it looks like in normalised text, where it is looked for there
    bool is_special = false;
  };

  HfParts parts_;
  AddedTokenMatcher raw_matcher_, normalized_matcher_;
  std::map<std::string, const AddedToken*, std::less<>> added_by_content_;
  std::unordered_map<TokenId, const AddedToken*> added_by_id_;
  std::unordered_map<TokenId, ShownToken> shown_;
  std::unordered_map<TokenId, std::string_view> vocab_by_id_;
  std::optional<RawBytePlan> raw_plan_;
  std::string kind_, fingerprint_;
  std::int64_t vocab_size_ = 0;
  std::optional<TokenId> bos_id_, eos_id_, pad_id_;
};

}  // namespace wmtp::tokenizer
