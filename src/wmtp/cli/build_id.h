// What tells two builds of the program apart.
#pragma once
#include <string>

namespace wmtp::cli {

// The linker's digest of this program, hexadecimal; the version and commit where it has none.
std::string build_id();

}  // namespace wmtp::cli
