// Manual pages of section 1, made of the command tree as --help is: the same words, in the man(7)
// macros that man-db, groff and mandoc read.
#pragma once
#include <CLI/CLI.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace wmtp::cli {

std::string man_page(const CLI::App& command);
// "wmtp-checkpoint-list.1".
std::string man_page_file(const CLI::App& command);

// One page for the program and one for each command, into `folder`, which is made. Returns their
// files.
std::vector<std::filesystem::path> write_man_pages(const CLI::App& app,
                                                   const std::filesystem::path& folder);

}  // namespace wmtp::cli
