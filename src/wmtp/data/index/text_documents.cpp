#include "wmtp/data/index/text_documents.h"

#include <algorithm>

namespace wmtp::data {
namespace {

constexpr std::size_t kBatchBytes = std::size_t{4} << 20;

}  // namespace

TextDocumentSource::TextDocumentSource(const std::filesystem::path& path, Separator separator,
                                       std::uint64_t max_piece_bytes)
    : separator_(separator),
      max_piece_bytes_(max_piece_bytes),
      chunks_(path, max_piece_bytes, separator == Separator::file ? max_piece_bytes : kBatchBytes) {
}

bool TextDocumentSource::next(TextBatch& batch) {
  batch = TextBatch{};
  LineChunk chunk;
  while (batch.pieces.empty() && !finished_) {
    if (!chunks_.next(chunk)) {
      finished_ = true;
      if (gathering_) close_document(batch, true);
      // The one document of a file ends where the file does, which only now is known.
      if (separator_ == Separator::file && !first_) batch.pieces.push_back(std::move(open_));
      break;
    }
    batch.end_offset = chunk.first_offset + chunk.bytes.size();
    if (chunk.overlong_bytes > 0) {
      if (gathering_) close_document(batch, true);
      batch.pieces.push_back({"", line_number_++, true, true, chunk.overlong_bytes});
    } else if (separator_ == Separator::file) {
      take_whole(chunk, batch);
    } else {
      for_each_line(chunk, [&](const Line& line) { take_line(line, batch); });
    }
  }
  return !batch.pieces.empty();
}

// The last chunk of the file carries the document's end, so one chunk is held back.
void TextDocumentSource::take_whole(const LineChunk& chunk, TextBatch& batch) {
  TextPiece piece;
  piece.text = chunk.bytes;
  if (chunk.first_offset == 0 && chunk.bytes.starts_with(kByteOrderMark))
    piece.text.erase(0, kByteOrderMark.size());
  piece.first_line = line_number_;
  line_number_ +=
      static_cast<std::uint64_t>(std::count(chunk.bytes.begin(), chunk.bytes.end(), '\n'));
  piece.starts = chunk.first_offset == 0;
  if (!first_) {
    open_.ends = false;
    batch.pieces.push_back(std::move(open_));
  }
  open_ = std::move(piece);
  first_ = false;
}

void TextDocumentSource::take_line(const Line& line, TextBatch& batch) {
  const std::uint64_t number = line_number_++;
  if (separator_ == Separator::line) {
    batch.pieces.push_back({std::string(line.text), number});
    return;
  }
  if (is_blank(line.text)) {
    if (gathering_) close_document(batch, true);
    return;
  }
  if (gathering_ && open_.text.size() + line.text.size() + 1 > max_piece_bytes_) {
    open_.text.push_back('\n');
    close_document(batch, false);
    open_.starts = false;
  }
  if (!gathering_) {
    open_.text.clear();
    open_.first_line = number;
    gathering_ = true;
  } else {
    open_.text.push_back('\n');
  }
  open_.text.append(line.text);
}

void TextDocumentSource::close_document(TextBatch& batch, bool ends) {
  open_.ends = ends;
  batch.pieces.push_back(std::move(open_));
  open_ = TextPiece{};
  gathering_ = false;
}

}  // namespace wmtp::data
