// The file in which torchrun's agent looks for the reason of a failure.
#pragma once
#include <string>
#include <string_view>

namespace wmtp::cli {

// Writes TORCHELASTIC_ERROR_FILE, if set, by temporary name and rename. A rank that only lost a
// peer (code 75) writes a second later: the agent blames the earliest.
void write_error_file(int code, std::string_view message, std::string_view where);

}  // namespace wmtp::cli
