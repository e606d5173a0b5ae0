#include "wmtp/run/profile/trace_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "wmtp/core/error.h"
#include "wmtp/core/json.h"
#include "wmtp/core/unique_fd.h"
#include "wmtp/storage/atomic_file.h"

// Why by way of a second file. Kineto opens, writes and renames by itself, tells nobody whether
// that went well, changes backslashes and quotes of the path it renames to, and writes the path
// into the trace. So it is given a path that is plain whatever the folder is called (through the
// folder's descriptor), and the last field, its name for the file, is replaced on the way: that it
// is there shows that the trace is whole.

namespace wmtp::run {
namespace {

constexpr std::string_view kLastField = "\"traceName\":";
constexpr std::streamoff kLongestEnd = 64 << 10;  // it holds a path

[[noreturn]] void fail(const std::filesystem::path& trace, std::string_view why) {
  throw Error(ErrorKind::io, "profile", fmt::format("{}: {}", trace.string(), why),
              "is there room on the disk, and may this user write there?");
}

// Where the last field begins.
std::streamoff end_of_events(std::ifstream& file, std::streamoff size,
                             const std::filesystem::path& trace) {
  const std::streamoff begin = std::max<std::streamoff>(0, size - kLongestEnd);
  std::string end(static_cast<std::size_t>(size - begin), '\0');
  file.seekg(begin).read(end.data(), static_cast<std::streamsize>(end.size()));
  const std::size_t at = end.rfind(kLastField);
  if (!file || at == end.npos) fail(trace, "the trace was not written whole");
  return begin + static_cast<std::streamoff>(at);
}

void copy_trace(const std::filesystem::path& written, const std::filesystem::path& trace,
                unsigned mode) {
  std::ifstream file(written, std::ios::binary | std::ios::ate);
  if (!file) fail(trace, "no trace was written");
  std::streamoff left = end_of_events(file, file.tellg(), trace);
  file.seekg(0);
  storage::AtomicFile out(trace, mode);
  std::array<char, 1 << 16> part;
  while (left > 0) {
    const auto size = std::min<std::streamoff>(left, part.size());
    if (!file.read(part.data(), size)) fail(trace, "the trace cannot be read back");
    out.write(std::string_view(part.data(), static_cast<std::size_t>(size)));
    left -= size;
  }
  const Json name = trace.filename().string();
  out.write(fmt::format("{} {}\n}}\n", kLastField,
                        name.dump(-1, ' ', false, Json::error_handler_t::replace)));
  out.commit();
}

}  // namespace

void write_trace(const std::filesystem::path& trace, unsigned mode,
                 const std::function<void(const std::string& path)>& save) {
  const std::filesystem::path folder = trace.has_parent_path() ? trace.parent_path() : ".";
  const UniqueFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) fail(trace, "its folder cannot be opened");
  const std::filesystem::path written =
      fmt::format("/proc/self/fd/{}/.{:x}.kineto", opened.get(),
                  std::hash<std::string>()(trace.filename().string()));
  save(written.string());
  struct Removed {
    const std::filesystem::path& path;
    ~Removed() {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
    }
  } const removed{written};
  copy_trace(written, trace, mode);
}

}  // namespace wmtp::run
