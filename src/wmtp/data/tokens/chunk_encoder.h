// Chunks of lines or of plain text as token rows.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "wmtp/data/index/bad_lines.h"
#include "wmtp/data/index/line_chunks.h"
#include "wmtp/data/index/text_documents.h"
#include "wmtp/data/tokens/encode_row.h"
#include "wmtp/data/tokens/token_cache.h"

namespace wmtp::data {

// Rows of one chunk, encoded.
struct TokenRows {
  std::vector<std::uint32_t> length, prompt_len;
  std::vector<std::uint8_t> flags;
  std::vector<tokenizer::TokenId> ids;
  std::vector<BadLine> bad;  // row = place in the chunk, or the physical line of a .txt
  std::uint64_t num_blank = 0, num_empty_documents = 0, end_offset = 0;

  void push(const EncodedRow& row) {
    length.push_back(static_cast<std::uint32_t>(row.ids.size()));
    prompt_len.push_back(row.prompt_len);
    flags.push_back(row.flags);
    ids.insert(ids.end(), row.ids.begin(), row.ids.end());
  }
  void push_empty() {
    length.push_back(0);
    prompt_len.push_back(0);
    flags.push_back(kTokenRowEmpty);
  }
};

// BORROWS both. THREADS: const members from any thread.
class ChunkEncoder {
 public:
  // ErrorKind::config where template or text options ask for a token the tokenizer lacks.
  ChunkEncoder(const CacheIdentity& identity, const tokenizer::Tokenizer& tokenizer);

  TokenRows lines(const LineChunk& chunk) const;
  TokenRows pieces(const TextBatch& batch) const;

 private:
  void refuse(TokenRows& out, BadLine bad) const;
  void row_line(RowParser& parser, const Line& line, EncodedRow& encoded, TokenRows& out) const;
  void text_line(RowParser& parser, const Line& line, EncodedRow& encoded, TokenRows& out) const;
  void document(const RowEncoder::Document& document, EncodedRow& encoded, TokenRows& out) const;
  std::optional<BadLine> check_piece(const TextPiece& piece) const;

  const CacheIdentity& identity_;
  RowEncoder encoder_;
  std::optional<std::int32_t> separator_;
};

}  // namespace wmtp::data
