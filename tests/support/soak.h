// How much of a test to run: 1 in CI, WMTP_SOAK times as much in the long tier (make soak).
#pragma once
#include <algorithm>
#include <cstdlib>
#include <string>

namespace wmtp::test {

inline int soak_factor() {
  const char* const text = std::getenv("WMTP_SOAK");
  return text ? std::max(1, std::stoi(text)) : 1;
}

}  // namespace wmtp::test
