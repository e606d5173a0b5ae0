// wmtp_fuzz TARGET FOLDER: the target reads every file of its corpus, in at most 512 MB of
// memory.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include "fuzz/fuzz.h"
#include "support/sanitized.h"
#include "wmtp/core/file.h"

namespace {

namespace fs = std::filesystem;
namespace fuzz = wmtp::fuzz;

int replay(const fuzz::Target& target, const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  int num_accepted = 0;
  for (const fs::path& file : files) {
    fmt::print(stderr, "{}\n", file.filename().string());  // the last one is to blame
    const std::string text = wmtp::read_file(file, std::size_t{64} << 20, wmtp::ErrorKind::io);
    num_accepted += fuzz::run(target, fuzz::bytes_of(text));
  }
  const int num_files = static_cast<int>(files.size());
  fmt::print("{}: {} files, {} accepted, {} refused\n", target.name, num_files, num_accepted,
             num_files - num_accepted);
  // A corpus whose files are all of one kind says nothing of the other.
  return num_accepted > 0 && num_accepted < num_files ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || !fuzz::find_target(argv[1])) {
    fmt::print(stderr, "wmtp_fuzz TARGET FOLDER; the targets are:\n");
    for (const fuzz::Target& target : fuzz::targets()) fmt::print(stderr, "  {}\n", target.name);
    return 64;
  }
#ifndef WMTP_SANITIZED
  constexpr rlim_t kMaxBytes = rlim_t{512} << 20;
  const rlimit limit{kMaxBytes, kMaxBytes};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) return 71;
#endif
  return replay(*fuzz::find_target(argv[1]), argv[2]);
}
