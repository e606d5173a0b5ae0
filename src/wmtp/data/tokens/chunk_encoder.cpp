#include "wmtp/data/tokens/chunk_encoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/core/utf8.h"
#include "wmtp/data/index/json_scan.h"

namespace wmtp::data {
namespace {

BadLine too_long(std::uint64_t bytes, std::uint64_t limit) {
  return {BadCause::too_long, 0, 1,
          fmt::format("the line has {} bytes, more than dataset.max_line_bytes: {}", bytes, limit)};
}

}  // namespace

ChunkEncoder::ChunkEncoder(const CacheIdentity& identity, const tokenizer::Tokenizer& tokenizer)
    : identity_(identity), encoder_(tokenizer, identity.encode) {
  const config::TextData& text = identity.text;
  if (identity.kind == CacheKind::rows) {
    // Refuses a template whose tokens the tokenizer lacks before any work is done.
    if (identity.encode.append_eos)
      tokenizer::end_of_response_id(identity.encode.prompt_template, tokenizer);
    return;
  }
  if (!text.eos_between) return;
  separator_ = text.separator_id ? std::optional(static_cast<std::int32_t>(*text.separator_id))
                                 : tokenizer.eos_id();
  if (!separator_)
    throw Error(ErrorKind::config, "data",
                "dataset.text.eos_between needs a tokenizer with an EOS token",
                "set dataset.text.separator_id, or eos_between: false");
  if (*separator_ < 0 || *separator_ >= tokenizer.vocab_size())
    throw Error(ErrorKind::config, "data",
                fmt::format("dataset.text.separator_id {} is outside the vocabulary of {}",
                            *separator_, tokenizer.vocab_size()));
}

TokenRows ChunkEncoder::lines(const LineChunk& chunk) const {
  TokenRows out;
  out.end_offset = chunk.first_offset + chunk.bytes.size();
  const std::uint64_t limit = identity_.bad_lines.max_line_bytes;
  if (chunk.overlong_bytes > 0) {
    refuse(out, too_long(chunk.overlong_bytes, limit));
    return out;
  }
  RowParser parser;
  EncodedRow encoded;
  for_each_line(chunk, [&](const Line& line) {
    if (line.text.size() > limit) return refuse(out, too_long(line.text.size(), limit));
    if (is_blank(line.text)) {
      ++out.num_blank;
      return out.push_empty();
    }
    identity_.kind == CacheKind::rows ? row_line(parser, line, encoded, out)
                                      : text_line(parser, line, encoded, out);
  });
  return out;
}

TokenRows ChunkEncoder::pieces(const TextBatch& batch) const {
  TokenRows out;
  out.end_offset = batch.end_offset;
  EncodedRow encoded;
  for (const TextPiece& piece : batch.pieces) {
    if (auto bad = check_piece(piece)) {
      out.bad.push_back(std::move(*bad));
      out.push_empty();
      continue;
    }
    document({piece.text, piece.starts, piece.ends}, encoded, out);
  }
  return out;
}

void ChunkEncoder::refuse(TokenRows& out, BadLine bad) const {
  bad.row = out.length.size();
  out.bad.push_back(std::move(bad));
  out.push_empty();
}

void ChunkEncoder::row_line(RowParser& parser, const Line& line, EncodedRow& encoded,
                            TokenRows& out) const {
  Row row;
  if (auto bad = parser.parse(line, row)) return refuse(out, std::move(*bad));
  encoder_.encode(row, encoded);
  out.push(encoded);
}

void ChunkEncoder::text_line(RowParser& parser, const Line& line, EncodedRow& encoded,
                             TokenRows& out) const {
  std::string_view text;
  if (auto bad = parser.parse_text(line, identity_.text.column, text))
    return refuse(out, std::move(*bad));
  document({text, true, true}, encoded, out);
}

void ChunkEncoder::document(const RowEncoder::Document& document, EncodedRow& encoded,
                            TokenRows& out) const {
  const bool whole = document.starts && document.ends;
  if (whole && identity_.text.skip_empty && is_blank(document.text)) {
    ++out.num_empty_documents;
    return out.push_empty();
  }
  encoder_.encode_document(document, separator_, encoded);
  out.push(encoded);
}

std::optional<BadLine> ChunkEncoder::check_piece(const TextPiece& piece) const {
  if (piece.overlong_bytes > 0) {
    BadLine bad = too_long(piece.overlong_bytes, identity_.bad_lines.max_line_bytes);
    bad.row = piece.first_line;
    return bad;
  }
  BadLine bad{BadCause::invalid_utf8, piece.first_line, 1, "invalid UTF-8"};
  std::optional<std::size_t> place = find_invalid_utf8(piece.text);
  if (!place) {
    const auto nul = piece.text.find('\0');
    if (nul == std::string::npos) return std::nullopt;
    place = nul;
    bad.cause = BadCause::nul, bad.text = "NUL character";
  }
  const std::string_view before = std::string_view(piece.text).substr(0, *place);
  bad.row += static_cast<std::uint64_t>(std::count(before.begin(), before.end(), '\n'));
  bad.column =
      *place - (before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1) + 1;
  return bad;
}

}  // namespace wmtp::data
