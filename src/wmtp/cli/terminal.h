// The terminal that this process writes to, itself or through `wmtp launch`.
#pragma once
#include <cstddef>

namespace wmtp::cli {

// Whether what is written to `fd` ends up on a terminal; false where that cannot be known, as under
// mpirun.
bool reaches_terminal(int fd);
// How wide that terminal is now; 80 where it does not say.
std::size_t terminal_columns(int fd);

}  // namespace wmtp::cli
