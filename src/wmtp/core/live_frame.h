// Text on a terminal that is drawn over again: a progress bar, the share of a long build. It hangs
// below the cursor, which waits at its first column. So whoever has a line to write erases what is
// below and need not know how tall that was, and a screen that was made narrower, and has wrapped
// the text anew, keeps nothing of it.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace wmtp {

// The marks around each drawing. A terminal with synchronized output shows what is between them at
// once, others ignore them; `wmtp launch` tells by them a drawing from the lines of a rank.
inline constexpr std::string_view kFrameBegin = "\x1b[?2026h", kFrameEnd = "\x1b[?2026l";
inline constexpr std::string_view kEraseBelow = "\r\x1b[J";

// A drawing of `lines` over the one before; of none, it takes that one off. REQUIRES lines narrower
// than the screen.
std::string live_frame(std::span<const std::string> lines);

}  // namespace wmtp
