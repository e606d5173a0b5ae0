// Which commit a folder is checked out at, from the files of its repository: git itself is never
// run, as a foreign repository can make it run programs.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace wmtp::run {

struct GitCheckout {
  std::string commit;  // hexadecimal
  std::string branch;  // empty: none is checked out
};

// Of the repository that `folder` lies in; nothing where there is none, it has no commit yet or its
// files cannot be made sense of.
std::optional<GitCheckout> find_git_checkout(const std::filesystem::path& folder);

}  // namespace wmtp::run
