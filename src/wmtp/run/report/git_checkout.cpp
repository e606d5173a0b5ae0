#include "wmtp/run/report/git_checkout.h"

#include <algorithm>
#include <string_view>

#include "wmtp/core/error.h"
#include "wmtp/core/file.h"

namespace wmtp::run {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMaxRefBytes = 4096, kMaxPackedBytes = std::size_t{16} << 20;

// Empty where there is no such file, or it is none of git's.
std::string git_file(const fs::path& path, std::size_t max_bytes = kMaxRefBytes) {
  try {
    std::string text = read_file(path, max_bytes);
    while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
    return text;
  } catch (const Error&) {
    return {};
  }
}

// The rest of a text that begins with `prefix`; empty for others.
std::string behind(const std::string& text, std::string_view prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : "";
}

bool is_commit(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) &&
         text.find_first_not_of("0123456789abcdef") == text.npos;
}

// `.git` is a folder, or in worktrees and submodules a file that names one.
fs::path git_folder(const fs::path& place) {
  std::error_code none;
  const fs::path git = place / ".git";
  if (fs::is_directory(git, none)) return git;
  const std::string elsewhere = behind(git_file(git), "gitdir: ");
  return elsewhere.empty() ? fs::path() : place / elsewhere;
}

// Branches of all worktrees lie in the folder of the first one.
fs::path common_folder(const fs::path& git) {
  const std::string common = git_file(git / "commondir");
  return common.empty() ? git : git / common;
}

std::string packed_commit(const fs::path& common, const std::string& ref) {
  const std::string text = git_file(common / "packed-refs", kMaxPackedBytes) + "\n";
  const std::size_t at = text.find(" " + ref + "\n");
  if (at == text.npos) return {};
  const std::size_t line = text.rfind('\n', at);
  const std::size_t begin = line == text.npos ? 0 : line + 1;
  return text.substr(begin, at - begin);
}

}  // namespace

std::optional<GitCheckout> find_git_checkout(const fs::path& folder) {
  std::error_code failed;
  fs::path place = fs::absolute(folder.empty() ? "." : folder, failed).lexically_normal(), git;
  for (; git.empty(); place = place.parent_path()) {
    git = git_folder(place);
    if (place == place.parent_path()) break;
  }
  if (git.empty()) return std::nullopt;
  const std::string head = git_file(git / "HEAD"), ref = behind(head, "ref: ");
  if (ref.empty()) return is_commit(head) ? std::optional(GitCheckout{head, ""}) : std::nullopt;
  // A name that leads out of the repository is none of git's.
  if (!ref.starts_with("refs/") || ref.find("..") != ref.npos) return std::nullopt;
  const fs::path common = common_folder(git);
  std::string commit = git_file(common / ref);
  if (commit.empty()) commit = packed_commit(common, ref);
  if (!is_commit(commit)) return std::nullopt;
  return GitCheckout{commit, behind(ref, "refs/heads/")};
}

}  // namespace wmtp::run
