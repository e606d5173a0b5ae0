// For what shares the screen with the logger.
#pragma once
#include <cstddef>
#include <functional>
#include <string_view>

namespace wmtp::log {

// `call` runs before each line that is shown, under the logger's lock: a progress bar takes itself
// off the screen. Empty: nothing. It must not log.
void before_each_line(std::function<void()> call);

// `columns` of the terminal that stderr reaches, asked before each drawing. Empty, as at first:
// stderr reaches none.
void set_live_screen(std::function<std::size_t()> columns);
// One line that stands below all others until the next call; an empty one takes it off. False where
// nothing is shown: no terminal, or no messages of level info.
bool show_live(std::string_view text);

}  // namespace wmtp::log
