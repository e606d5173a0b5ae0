#include "wmtp/data/sections/section_spool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "wmtp/core/error.h"

namespace wmtp::data {
namespace {

constexpr std::size_t kPendingBytes = std::size_t{1} << 20;

Error io_error(std::string_view action, const std::filesystem::path& path) {
  return Error(ErrorKind::io, "data",
               fmt::format("cannot {} a temporary file in {}: {}", action, path.string(),
                           std::generic_category().message(errno)));
}

}  // namespace

SectionSpool::SectionSpool(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) {
    file_ = UniqueFd(fd);
    return;
  }
  std::string name = (folder / ".spool-XXXXXX").string();  // file systems without O_TMPFILE
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named < 0) throw io_error("create", folder);
  file_ = UniqueFd(named);
  ::unlink(name.c_str());
}

void SectionSpool::append(std::span<const std::byte> bytes) {
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
  size_ += bytes.size();
  if (pending_.size() >= kPendingBytes) flush();
}

void SectionSpool::flush() {
  std::size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t count = ::pwrite(file_.get(), pending_.data() + done, pending_.size() - done,
                                   static_cast<off_t>(flushed_ + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw io_error("write", "the output folder");
    done += static_cast<std::size_t>(count);
  }
  flushed_ += pending_.size();
  pending_.clear();
}

void SectionSpool::read(std::uint64_t offset, std::span<std::byte> out) {
  flush();
  while (!out.empty()) {
    const ssize_t count = ::pread(file_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw io_error("read", "the output folder");
    offset += static_cast<std::uint64_t>(count);
    out = out.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace wmtp::data
