#include "wmtp/core/live_frame.h"

#include <fmt/format.h>

namespace wmtp {

std::string live_frame(std::span<const std::string> lines) {
  std::string text(kFrameBegin);
  if (lines.empty()) text += kEraseBelow;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    // What is left of an older line goes only after the new one has been written over it: nothing
    // flickers.
    const bool last = i + 1 == lines.size();
    text += "\r" + lines[i] + (last ? "\x1b[J\r" : "\x1b[K\n");
  }
  if (lines.size() > 1) text += fmt::format("\x1b[{}A", lines.size() - 1);
  return text += kFrameEnd;
}

}  // namespace wmtp
