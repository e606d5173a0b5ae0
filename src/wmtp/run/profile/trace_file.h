// A Chrome trace as Kineto writes it, made a file of ours: whole or not there, with its own mode.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

namespace wmtp::run {

// BLOCKS. `save` writes a trace to the path it is given; what it leaves there is moved to `trace`,
// whose folder must exist. Error io where nothing came, or only a part.
void write_trace(const std::filesystem::path& trace, unsigned mode,
                 const std::function<void(const std::string& path)>& save);

}  // namespace wmtp::run
