#include "wmtp/cli/launcher/frame_splitter.h"

#include <algorithm>
#include <utility>

#include "wmtp/core/live_frame.h"

namespace wmtp::cli {
namespace {

// A drawing is a few lines; what grows beyond this is no drawing of ours.
constexpr std::size_t kMaxFrameBytes = std::size_t{1} << 16;

// Where the mark begins, or what may become it once more bytes are here.
std::size_t find_mark(std::string_view text) {
  const std::size_t whole = text.find(kFrameBegin);
  if (whole != std::string_view::npos) return whole;
  for (std::size_t length = std::min(kFrameBegin.size() - 1, text.size()); length > 0; --length)
    if (text.ends_with(kFrameBegin.substr(0, length))) return text.size() - length;
  return text.size();
}

}  // namespace

FrameSplitter::Piece FrameSplitter::take(std::size_t num_bytes, bool is_frame) {
  Piece piece{held_.substr(0, num_bytes), is_frame};
  held_.erase(0, num_bytes);
  return piece;
}

std::optional<FrameSplitter::Piece> FrameSplitter::next() {
  if (held_.empty()) return std::nullopt;
  const std::size_t begin = find_mark(held_);
  if (begin > 0) return take(begin, false);
  const std::size_t end = held_.find(kFrameEnd);
  if (end != std::string::npos) return take(end + kFrameEnd.size(), true);
  if (held_.size() > kMaxFrameBytes) return take(held_.size(), false);
  return std::nullopt;
}

std::string FrameSplitter::rest() {
  return std::exchange(held_, {});
}

}  // namespace wmtp::cli
