#include "wmtp/cli/logging/kineto_log.h"

#include <cstdlib>

namespace wmtp::cli {

void quiet_kineto(c10::Device device) {
  constexpr int kKeepUsersOwn = 0;
  if (device.is_cpu()) ::setenv("KINETO_LOG_LEVEL", "99", kKeepUsersOwn);
}

}  // namespace wmtp::cli
