#pragma once

#include <filesystem>

// Where this checkout and its build lie. Compiled into one small source, so that no other test
// differs from one checkout to the next and the compiler cache serves them all.
namespace wmtp::test {

std::filesystem::path source_dir();
std::filesystem::path build_dir();

}  // namespace wmtp::test
