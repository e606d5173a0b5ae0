// The rows of a file as token ids, read front to back in bounded memory: what `score` works on.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

namespace wmtp::models {

struct TokenRow {
  std::vector<std::int32_t> ids;
  std::uint32_t prompt_len = 0;  // tokens before it are no targets
};

class TokenRowSource {
 public:
  virtual ~TokenRowSource() = default;
  // Appends the next rows; false at the end. A bad row is Error data with FILE:LINE.
  virtual bool next(std::vector<TokenRow>& rows) = 0;
};

struct TokenRowOptions {
  std::int64_t vocab_size = 0;
  std::int64_t max_positions = 0;
  std::filesystem::path tokenizer;  // folder or file; empty: only rows of ids can be read
};

// Told apart by name and first line: JSONL rows {"ids": [..]} are taken as they stand; instruction
// rows and text (.txt, JSONL with "text") are encoded as training encodes them by default. An
// instruction row longer than the model's positions is cut at its end, a document is cut into
// pieces of that length.
std::unique_ptr<TokenRowSource> open_token_rows(const std::filesystem::path& file,
                                                const TokenRowOptions& options);

}  // namespace wmtp::models
