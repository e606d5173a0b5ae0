#include "wmtp/storage/open_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace wmtp::storage {
namespace {

// O_NONBLOCK: opening a FIFO must not hang before we can see that it is one.
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

std::string shown(std::string_view name) {
  std::string text;
  for (const char c : name.substr(0, 80)) {
    const auto code = static_cast<unsigned char>(c);
    text += code < 0x20 || code == 0x7f ? fmt::format("\\x{:02x}", code) : std::string(1, c);
  }
  return name.size() > 80 ? text + "..." : text;
}

void check_regular(int fd, std::string_view path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
    throw Error(ErrorKind::data, "storage", fmt::format("{} is not a regular file", path));
}

int open_without_links(int folder, const std::string& name) {
  struct open_how how {};
  how.flags = kReadFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const long fd = ::syscall(SYS_openat2, folder, name.c_str(), &how, sizeof how);
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return static_cast<int>(fd);
  // Kernels before 5.6 and some sandboxes: the same walk, one component at a time.
  UniqueFd here(::openat(folder, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  std::string_view rest = name;
  for (auto slash = rest.find('/'); here && slash != rest.npos; slash = rest.find('/')) {
    const std::string part(rest.substr(0, slash));
    here =
        UniqueFd(::openat(here.get(), part.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    rest.remove_prefix(slash + 1);
  }
  if (!here) return -1;
  return ::openat(here.get(), std::string(rest).c_str(), kReadFlags | O_NOFOLLOW);
}

}  // namespace

void check_relative_name(std::string_view name, std::string_view origin) {
  auto refuse = [&](std::string_view fact) {
    throw Error(ErrorKind::data, "storage",
                fmt::format("{} names the file \"{}\": {}", origin, shown(name), fact),
                "only plain names below the folder are read");
  };
  if (name.empty()) refuse("the name is empty");
  if (name.size() > 4096)
    refuse(fmt::format("the name has {} bytes, the limit is 4096", name.size()));
  if (name.find('\0') != name.npos) refuse("it contains a NUL");
  if (name.front() == '/') refuse("it is an absolute path");
  for (std::string_view rest = name; !rest.empty();) {
    const auto slash = rest.find('/');
    const auto part = rest.substr(0, slash);
    if (part.empty() || slash + 1 == rest.size()) refuse("it has an empty component");
    if (part == "." || part == "..") refuse(fmt::format("it has a \"{}\" component", part));
    rest = slash == rest.npos ? std::string_view{} : rest.substr(slash + 1);
  }
}

UniqueFd open_beneath(const std::filesystem::path& folder, std::string_view name,
                      std::string_view origin, Links links, ErrorKind kind) {
  check_relative_name(name, origin);
  const std::string path = (folder / name).string();
  UniqueFd base(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!base)
    throw Error(kind, "storage",
                fmt::format("cannot open folder {}: {}", folder.string(), std::strerror(errno)));
  const bool may_follow = links == Links::allow_bare_name && name.find('/') == name.npos;
  UniqueFd file(may_follow ? ::openat(base.get(), std::string(name).c_str(), kReadFlags)
                           : open_without_links(base.get(), std::string(name)));
  if (!file && (errno == ELOOP || errno == EXDEV))
    throw Error(ErrorKind::data, "storage", fmt::format("{} leads over a symbolic link", path),
                "links are not followed here");
  if (!file)
    throw Error(kind, "storage",
                fmt::format("cannot open {}, named by {}: {}", path, origin, std::strerror(errno)));
  check_regular(file.get(), path);
  return file;
}

UniqueFd open_regular(const std::filesystem::path& path, ErrorKind kind) {
  UniqueFd file(::open(path.c_str(), kReadFlags));
  if (!file)
    throw Error(kind, "storage",
                fmt::format("cannot open {}: {}", path.string(), std::strerror(errno)));
  check_regular(file.get(), path.string());
  return file;
}

}  // namespace wmtp::storage
