// stdout, written through std::cout alone. Where it is the result of a command, what does not
// arrive makes the command fail; where it only tells how a run goes, it never matters.
#pragma once
#include "wmtp/core/error.h"

namespace wmtp::cli {

// Once, before anything is printed. From then on a write that fails throws std::ios_base::failure
// out of std::cout.
void watch_standard_output();

// What is printed is escaped (core/printable.h), for names and values of files are in it: with our
// own colours in it, or not at all where the bytes themselves are the result.
enum class Escape { all, all_but_colours, nothing };
void set_standard_output_escape(Escape escape);

// For training runs: what cannot be written is dropped, and later writes are tried again.
void let_standard_output_fail();

// BLOCKS until all of it is written; Error io if any of it was not.
void finish_standard_output();

bool standard_output_failed();  // any of it, so far
// What a failed write means, as Error io. REQUIRES that there was one.
Error standard_output_error();
// Whether a result's reader has closed the pipe, as `| head -1` does: it has seen enough.
bool standard_output_is_closed();

}  // namespace wmtp::cli
