// Documents of a .txt file, read front to back in bounded memory.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "wmtp/data/index/line_chunks.h"
#include "wmtp/data/options.h"

namespace wmtp::data {

// A document, or a piece of one that is longer than the limit (cut after a line feed).
struct TextPiece {
  std::string text;
  std::uint64_t first_line = 0;  // physical line number from 0
  bool starts = true, ends = true;
  std::uint64_t overlong_bytes = 0;  // > 0: one line of this length, too long to read
};

struct TextBatch {
  std::vector<TextPiece> pieces;
  std::uint64_t end_offset = 0;
};

class TextDocumentSource {
 public:
  // `file`: the whole file, unchanged but for a byte-order mark. `blank_line`: runs of lines that
  // are not blank, joined by line feeds. `line`: each line that is there, without its end.
  TextDocumentSource(const std::filesystem::path& path, Separator separator,
                     std::uint64_t max_piece_bytes);
  bool next(TextBatch& batch);
  std::uint64_t file_bytes() const { return chunks_.file_bytes(); }
  void done_until(std::uint64_t offset) { chunks_.done_until(offset); }

 private:
  void take_whole(const LineChunk& chunk, TextBatch& batch);
  void take_line(const Line& line, TextBatch& batch);
  void close_document(TextBatch& batch, bool ends);

  Separator separator_;
  std::uint64_t max_piece_bytes_;
  LineChunkSource chunks_;
  std::uint64_t line_number_ = 0;
  bool first_ = true, finished_ = false;
  TextPiece open_;  // the document being gathered
  bool gathering_ = false;
};

}  // namespace wmtp::data
