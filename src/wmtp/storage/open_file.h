// Opening files whose names come out of other files.
#pragma once
#include <filesystem>
#include <string_view>

#include "wmtp/core/error.h"
#include "wmtp/core/unique_fd.h"

namespace wmtp::storage {

// Whether a name may lead over symbolic links. Input model folders of the Hugging Face cache are
// made of links, so there a bare name may be one; in checkpoints nothing may.
enum class Links { refuse, allow_bare_name };

// Refuses (ErrorKind::data) what is not a plain relative path below its folder: empty, absolute,
// over 4096 bytes, with a NUL, or with an empty, "." or ".." component. `origin` is the file that
// named it.
void check_relative_name(std::string_view name, std::string_view origin);

// Opens `name`, which `origin` gave, for reading beneath `folder`; the kernel keeps the walk inside
// (openat2), so a link swapped in after a check changes nothing. The result is a regular file.
// A file that cannot be opened is an Error of `kind`; a name that leads out of the folder, or to
// what is no regular file, is ErrorKind::data.
UniqueFd open_beneath(const std::filesystem::path& folder, std::string_view name,
                      std::string_view origin, Links links = Links::refuse,
                      ErrorKind kind = ErrorKind::io);

// Opens a regular file that the user named. Links are followed.
UniqueFd open_regular(const std::filesystem::path& path, ErrorKind kind = ErrorKind::io);

}  // namespace wmtp::storage
