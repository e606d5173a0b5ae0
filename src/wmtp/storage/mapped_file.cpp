#include "wmtp/storage/mapped_file.h"

#include <fmt/format.h>
#include <sanitizer/asan_interface.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "wmtp/storage/cut_mappings.h"

namespace wmtp::storage {
namespace {

// The last page of a mapping goes on with zeros behind the file. AddressSanitizer is told that
// nobody may read them; in other builds these macros do nothing.
void guard_tail(const std::byte* data, std::size_t size, bool guarded) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t tail = (page - size % page) % page;
  if (guarded)
    ASAN_POISON_MEMORY_REGION(data + size, tail);
  else
    ASAN_UNPOISON_MEMORY_REGION(data + size, tail);
}

}  // namespace

MappedFile MappedFile::open(const std::filesystem::path& path, ErrorKind kind) {
  return map(open_regular(path, kind), path);
}

MappedFile MappedFile::map(UniqueFd file, const std::filesystem::path& path) {
  auto fail = [&] {
    throw Error(ErrorKind::io, "storage",
                fmt::format("cannot map {}: {}", path.string(), std::strerror(errno)));
  };
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail();
  MappedFile mapped;
  mapped.path_ = path;
  if (status.st_size == 0) return mapped;  // mmap refuses length 0
  const auto size = static_cast<std::size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) fail();
  mapped.data_ = static_cast<const std::byte*>(data);
  mapped.size_ = size;
  remember_mapping(mapped.data_, size, path);
  guard_tail(mapped.data_, size, true);
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept {
  *this = std::move(other);
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!data_) return;
  forget_mapping(data_);
  guard_tail(data_, size_, false);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::advise(Access access) const {
  const int advice = access == Access::sequential ? MADV_SEQUENTIAL
                     : access == Access::random   ? MADV_RANDOM
                                                  : MADV_NORMAL;
  advise_range(0, size_, advice);
}

void MappedFile::prefetch(std::size_t begin, std::size_t end) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  advise_range(begin / page * page, end, MADV_WILLNEED);
}

void MappedFile::drop(std::size_t begin, std::size_t end) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  end = std::min(end, size_);
  const std::size_t whole_end = end == size_ ? end : end / page * page;
  advise_range((begin + page - 1) / page * page, whole_end, MADV_DONTNEED);
}

void MappedFile::advise_range(std::size_t begin, std::size_t end, int advice) const {
  end = std::min(end, size_);
  if (begin < end) ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, advice);
}

}  // namespace wmtp::storage
