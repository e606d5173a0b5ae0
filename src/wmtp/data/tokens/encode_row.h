// From a row or a document to token ids.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/data/index/row_schema.h"
#include "wmtp/data/options.h"
#include "wmtp/tokenizer/prompt_template.h"

namespace wmtp::data {

// Flags of a stored row.
enum TokenRowFlag : std::uint8_t {
  kTokenRowEmpty = 1,       // blank, bad or skipped line: no tokens
  kTokenRowMerged = 2,      // a token crosses the border of prompt and output
  kTokenRowEos = 4,         // the end token was appended
  kTokenRowBos = 8,         // begins with BOS
  kTokenRowContinues = 16,  // goes on with the document of the row before
  kTokenRowCut = 32,        // cut at kMaxRowTokens
};
constexpr std::size_t kMaxRowTokens = std::size_t{1} << 20;

struct EncodedRow {
  std::vector<tokenizer::TokenId> ids;
  std::uint32_t prompt_len = 0;
  std::uint8_t flags = 0;
};

// BORROWS the tokenizer. THREADS: const members from any thread.
class RowEncoder {
 public:
  // ErrorKind::config where the settings ask for a token the tokenizer lacks.
  RowEncoder(const tokenizer::Tokenizer& tokenizer, const EncodeSettings& settings);

  // ids = [BOS] prompt output [end]; prompt_len = length of the longest common prefix with the
  // encoded prompt, so a token that merges across the border belongs to the response.
  void encode(const Row& row, EncodedRow& out) const;

  struct Document {
    std::string_view text;
    bool starts = true, ends = true;  // false: a piece of a longer one
  };
  // ids = [BOS] text [separator].
  void encode_document(const Document& document, std::optional<std::int32_t> separator,
                       EncodedRow& out) const;

  const tokenizer::Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  const tokenizer::Tokenizer& tokenizer_;
  EncodeSettings settings_;
  std::optional<std::int32_t> bos_;
};

}  // namespace wmtp::data
