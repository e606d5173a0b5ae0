// `wmtp bench` is a program of its own, wmtp-bench, beside this one.
#pragma once

namespace wmtp::cli {

// Becomes wmtp-bench with the same words. Returns only where there is no such program; the command
// then says so.
void become_bench(char** argv);

}  // namespace wmtp::cli
