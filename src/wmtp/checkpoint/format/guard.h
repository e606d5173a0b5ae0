// What a failpoint's action means to a guarded step. The point is passed where it stands,
//   guarded(failpoint::pass("save.rename.before"), path, [&] { ... });
// so that its name vanishes from releases together with the call.
#pragma once
#include <filesystem>

#include "wmtp/core/failpoint.h"
#include "wmtp/storage/file_system.h"

namespace wmtp::checkpoint {

inline void fail_if_asked(failpoint::Action action, const std::filesystem::path& path) {
  if (const int code = failpoint::error_number(action))
    throw storage::FileError(code, "go on with", path);
}

// A step that the control of a fault test leaves out.
template <class Step>
void guarded(failpoint::Action action, const std::filesystem::path& path, Step&& step) {
  fail_if_asked(action, path);
  if (action != failpoint::Action::skip) step();
}

// The bytes in two halves with the point between them. StopSaveFlags to skip, it leaves the second
// out.
template <class PassPoint>
void write_halves(storage::OutputFile& file, std::span<const std::byte> bytes,
                  const std::filesystem::path& path, PassPoint&& pass_point) {
  const std::size_t half = bytes.size() / 2;
  file.write(bytes.first(half));
  guarded(pass_point(), path, [&] { file.write(bytes.subspan(half)); });
}

}  // namespace wmtp::checkpoint
