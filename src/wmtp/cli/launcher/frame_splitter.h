// Takes the drawings (core/live_frame.h) out of the bytes that a rank writes.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace wmtp::cli {

class FrameSplitter {
 public:
  struct Piece {
    std::string bytes;
    bool is_frame = false;
  };

  void add(std::string_view bytes) { held_ += bytes; }
  // Text as soon as it is here, drawings once they are whole. Nothing: more bytes are needed.
  std::optional<Piece> next();
  std::string rest();  // at the end of the stream: what never became a drawing

 private:
  Piece take(std::size_t num_bytes, bool is_frame);

  std::string held_;
};

}  // namespace wmtp::cli
