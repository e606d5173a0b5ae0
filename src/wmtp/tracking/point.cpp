#include "wmtp/tracking/point.h"

#include <chrono>

namespace wmtp::tracking {

double wall_time_s() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace wmtp::tracking
