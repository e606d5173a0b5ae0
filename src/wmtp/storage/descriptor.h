// A file descriptor with an owner, and opening files whose names come out of other files.
#pragma once
#include <filesystem>
#include <string_view>
#include <utility>

#include "wmtp/core/error.h"

namespace wmtp::storage {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Whether a name may lead over symbolic links. Input model folders of the Hugging Face cache are
// made of links, so there a bare name may be one; in checkpoints nothing may.
enum class Links { refuse, allow_bare_name };

// Refuses (ErrorKind::data) what is not a plain relative path below its folder: empty, absolute,
// over 4096 bytes, with a NUL, or with an empty, "." or ".." component. `origin` is the file that
// named it.
void check_relative_name(std::string_view name, std::string_view origin);

// Opens `name`, which `origin` gave, for reading beneath `folder`; the kernel keeps the walk inside
// (openat2), so a link swapped in after a check changes nothing. The result is a regular file.
// A file that cannot be opened is an Error of `kind`; a name or file that plays tricks is
// ErrorKind::data.
Descriptor open_beneath(const std::filesystem::path& folder, std::string_view name,
                        std::string_view origin, Links links = Links::refuse,
                        ErrorKind kind = ErrorKind::io);

// Opens a regular file that the user named. Links are followed.
Descriptor open_regular(const std::filesystem::path& path, ErrorKind kind = ErrorKind::io);

}  // namespace wmtp::storage
