#include "wmtp/weights/fresh_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "wmtp/core/error.h"
#include "wmtp/core/failpoint.h"
#include "wmtp/core/log.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::weights {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(std::string_view action, const fs::path& path, int code) {
  throw Error(ErrorKind::io, "checkpoint",
              fmt::format("cannot {} {}: {}", action, path.string(), std::strerror(code)));
}

// Where a link leads is what gets replaced, not the link. "D/" is "D". A bare name is absolute
// first: of what is not there weakly_canonical() leaves a relative path, without a parent.
fs::path resolved(const fs::path& target) {
  std::error_code error;
  fs::path path = fs::absolute(target, error);
  if (!error) path = fs::weakly_canonical(path, error);
  if (error) fail("resolve", target, error.value());
  return path.has_filename() ? path : path.parent_path();
}

void check_replaceable(const fs::path& target, const FreshFolder::Replaceable& replaceable,
                       std::string_view mark) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(target, error);
  if (status.type() == fs::file_type::not_found) return;
  if (error) fail("look at", target, error.value());
  if (status.type() != fs::file_type::directory)
    throw Error(ErrorKind::config, "checkpoint",
                fmt::format("{} is there and is no folder", target.string()));
  bool empty = true, marked = mark.empty();
  for (const fs::directory_entry& entry : fs::directory_iterator(target, error)) {
    const std::string name = entry.path().filename().string();
    empty = false;
    marked = marked || name == mark;
    if (!entry.is_directory() && replaceable(name)) continue;
    throw Error(ErrorKind::config, "checkpoint",
                fmt::format("{} holds {}, which no export writes; it is left as it is",
                            target.string(), name),
                "name another folder, or empty this one");
  }
  if (error) fail("list", target, error.value());
  if (!empty && !marked)
    throw Error(ErrorKind::config, "checkpoint",
                fmt::format("{} holds no {}: no export wrote it; it is left as it is",
                            target.string(), mark),
                "name another folder, or empty this one");
}

fs::path temporary_beside(const fs::path& target) {
  std::uint64_t tag = 0;
  if (::getrandom(&tag, sizeof tag, 0) != sizeof tag)
    throw Error(ErrorKind::io, "checkpoint", "the system gives no random bytes");
  return target.parent_path() /
         fmt::format(".{}.tmp-{:016x}", target.filename().string().substr(0, 200), tag);
}

}  // namespace

void FreshFolder::require_replaceable(const fs::path& target, const Replaceable& replaceable,
                                      std::string_view mark) {
  const fs::path place = resolved(target);
  if (!place.has_filename())
    throw Error(ErrorKind::config, "checkpoint",
                fmt::format("{} cannot be an export's folder", target.string()));
  check_replaceable(place, replaceable, mark);
}

FreshFolder::FreshFolder(const fs::path& target, const Replaceable& replaceable,
                         std::string_view mark)
    : target_(resolved(target)) {
  require_replaceable(target, replaceable, mark);
  std::error_code error;
  fs::create_directories(target_.parent_path(), error);
  if (error) fail("create", target_.parent_path(), error.value());
  const fs::path folder = temporary_beside(target_);
  if (!fs::create_directory(folder, error)) fail("create", folder, error.value());
  temporary_ = folder;
}

FreshFolder::~FreshFolder() {
  std::error_code ignored;
  if (!committed_ && !temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void FreshFolder::commit() {
  WMTP_CHECK(!committed_, "commit of a finished folder");
  storage::sync_folder(temporary_);
  const auto action = failpoint::pass("export.rename.before");
  if (const int code = failpoint::error_number(action)) fail("rename to", target_, code);
  if (action == failpoint::Action::skip) return;
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_NOREPLACE) != 0)
    replace();
  committed_ = true;
  storage::sync_folder(target_.parent_path());
}

// The old folder and the new one change names; once that is durable, the old one goes.
void FreshFolder::replace() {
  std::error_code error;
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) {
    storage::sync_folder(target_.parent_path());
    fs::remove_all(temporary_, error);
    if (error)
      log::warn("checkpoint", "the replaced folder {} cannot be removed: {}", temporary_.string(),
                error.message());
    return;
  }
  // File systems without the exchange: the old folder steps aside first.
  const fs::path aside = fs::path(temporary_.string() + ".old");
  const bool had_old = std::rename(target_.c_str(), aside.c_str()) == 0;
  if (!had_old && errno != ENOENT) fail("move aside", target_, errno);
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    const int code = errno;
    if (had_old) (void)std::rename(aside.c_str(), target_.c_str());
    fail("rename to", target_, code);
  }
  storage::sync_folder(target_.parent_path());
  fs::remove_all(aside, error);
}

}  // namespace wmtp::weights
