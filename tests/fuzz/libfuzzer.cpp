// What libFuzzer calls. WMTP_FUZZ_TARGET names the target; WMTP_FUZZ_PLANT=1 switches the planted
// off-by-one of the parsers on.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fuzz/fuzz.h"
#include "wmtp/core/planted_fault.h"

namespace {

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

const wmtp::fuzz::Target* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  chosen = wmtp::fuzz::find_target(variable("WMTP_FUZZ_TARGET"));
  wmtp::fuzz::require(chosen, "WMTP_FUZZ_TARGET names no target");
  if (variable("WMTP_FUZZ_PLANT") == "1") wmtp::planted_off_by_one = 1;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  wmtp::fuzz::run(*chosen, {reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
