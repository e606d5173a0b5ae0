#include "fuzz/fuzz.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"

namespace wmtp::fuzz {
namespace {

constexpr double kMaxSeconds = 1;

double cpu_seconds() {  // of this process: what else the machine does is not the parser's fault
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

std::vector<Target>& targets() {
  static std::vector<Target> list;
  return list;
}

const Target* find_target(std::string_view name) {
  for (const Target& target : targets())
    if (target.name == name) return &target;
  return nullptr;
}

bool run(const Target& target, Bytes bytes) {
  static const bool quiet = [] {
    log::configure({.level = log::Level::error});
    return true;
  }();
  static_cast<void>(quiet);
  const auto copy = std::make_unique<std::byte[]>(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.get(), bytes.data(), bytes.size());
  const double begin = cpu_seconds();
  bool accepted = true;
  try {
    target.read({copy.get(), bytes.size()});
  } catch (const Error& error) {
    require(error.kind() != ErrorKind::internal, error.what());
    accepted = false;
  }
  require(cpu_seconds() - begin < kMaxSeconds, "an input that takes more than a second");
  return accepted;
}

void require(bool held, std::string_view what) {
  if (held) return;
  fmt::print(stderr, "fuzz: broken promise: {}\n", what);
  std::abort();
}

MemoryFile::MemoryFile(Bytes bytes) : file_(::memfd_create("fuzz", MFD_CLOEXEC)) {
  require(file_.get() >= 0, "no memory file");
  const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
  require(written == static_cast<ssize_t>(bytes.size()), "a memory file takes all bytes");
}

std::filesystem::path MemoryFile::path() const {
  return fmt::format("/proc/self/fd/{}", file_.get());
}

}  // namespace wmtp::fuzz
