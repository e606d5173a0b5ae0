// Text to token ids and back. One interface for Hugging Face `tokenizer.json` (BPE), for
// `vocab.json` with `merges.txt`, and for SentencePiece `tokenizer.model` (BPE); the ids equal
// those of the `tokenizers`, `transformers` and `sentencepiece` packages.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace wmtp::tokenizer {

using TokenId = std::int32_t;

struct ByteSpan {
  std::size_t begin = 0, end = 0;
  bool operator==(const ByteSpan&) const = default;
};

struct EncodeOptions {
  bool add_special = false;    // BOS/EOS as the file's post-processor adds them
  bool allow_special = false;  // special tokens in the text become their ids; false: ordinary text
  // BORROWS. Where special tokens become their ids although allow_special is false: the ones a
  // prompt template wrote itself (prompt_template.h). Ascending, not overlapping.
  std::span<const ByteSpan> special_spans = {};
};

// What `wmtp tokenizer inspect` shows beyond the interface's own answers.
struct TokenizerDescription {
  struct Token {
    TokenId id = -1;
    std::string content;
    bool special = false;
  };
  std::vector<Token> added_tokens;  // by id
  std::string split_pattern;  // regular expression or string of the pre-tokenizer; may be empty
  std::string splitter;       // "scanner qwen", "pcre2", ...; empty: no split
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text` to `out`. REQUIRES valid UTF-8 (else Error data with the byte
  // offset). THREADS: safe from several threads at once.
  virtual void encode(std::string_view text, const EncodeOptions& options,
                      std::vector<TokenId>& out) const = 0;
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // Invalid UTF-8 in the result becomes U+FFFD. Ids outside the vocabulary: Error data.
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special) const = 0;

  virtual std::string_view kind() const = 0;        // e.g. "bpe/byte-level"
  virtual std::int64_t vocab_size() const = 0;      // highest id + 1, added tokens included
  virtual std::string piece(TokenId id) const = 0;  // the token as the file spells it
  virtual std::optional<TokenId> id_of(std::string_view piece) const = 0;
  virtual std::optional<TokenId> bos_id() const = 0;
  virtual std::optional<TokenId> eos_id() const = 0;
  // Of tokenizer_config.json; nothing in training reads it, exports name it.
  virtual std::optional<TokenId> pad_id() const { return std::nullopt; }
  virtual bool adds_bos() const = 0;  // what add_special would do
  // SHA-256 (hex) over the tokenizer file and the special-token settings that apply.
  virtual const std::string& fingerprint() const = 0;
  virtual TokenizerDescription describe() const { return {}; }
};

// `path`: a folder (tokenizer.json, else tokenizer.model, else vocab.json with merges.txt;
// tokenizer_config.json beside it is honoured for bos/eos/pad), or one of those files.
std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path);

void require_valid_utf8(std::string_view text);  // else Error data with the byte offset
[[noreturn]] void throw_unknown_id(TokenId id, std::int64_t vocab_size);

}  // namespace wmtp::tokenizer
