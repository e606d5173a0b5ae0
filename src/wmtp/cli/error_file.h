// The file in which torchrun's agent looks for the reason of a failure.
#pragma once
#include <string_view>

namespace wmtp::cli {

// Writes TORCHELASTIC_ERROR_FILE, if set, by temporary name and rename. The agent blames the
// earliest, so a rank that only followed another one (`is_cause` false) writes a second later.
void write_error_file(bool is_cause, std::string_view message, std::string_view where);

}  // namespace wmtp::cli
