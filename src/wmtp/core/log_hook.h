// For what shares the screen with the logger.
#pragma once
#include <functional>

namespace wmtp::log {

// `call` runs before each line that is shown, under the logger's lock: a progress bar takes itself
// off the screen. Empty: nothing. It must not log.
void before_each_line(std::function<void()> call);

}  // namespace wmtp::log
