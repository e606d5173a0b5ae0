#include "support/tolerance.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>

namespace wmtp::test {
namespace {

struct Nearest {
  double error = 0, bound = 0;
  double share() const { return error == 0 ? 0 : error / bound; }
};

// Written once, when the program ends: some places are passed a million times.
class ToleranceLog {
 public:
  explicit ToleranceLog(const char* path) : path_(path) {}
  ~ToleranceLog() {
    std::string text;
    for (const auto& [place, worst] : worst_)
      text += fmt::format("{} {:.6g} {:.6g}\n", place, worst.error, worst.bound);
    const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    // One call, so that the lines of several ranks do not mix.
    if (fd < 0 || ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      fmt::print(stderr, "WMTP_TOLERANCE_LOG: {} cannot be written\n", path_);
    if (fd >= 0) ::close(fd);
  }
  void note(const char* file, int line, const Nearest& found) {
    const std::filesystem::path path(file);
    const std::string place = fmt::format("{}/{}:{}", path.parent_path().filename().string(),
                                          path.filename().string(), line);
    const std::lock_guard lock(mutex_);
    Nearest& worst = worst_.try_emplace(place, found).first->second;
    if (!(found.share() <= worst.share())) worst = found;
  }

 private:
  std::string path_;
  std::mutex mutex_;
  std::map<std::string, Nearest> worst_;
};

ToleranceLog* tolerance_log() {
  static const char* const path = std::getenv("WMTP_TOLERANCE_LOG");
  if (!path) return nullptr;
  static ToleranceLog log(path);
  return &log;
}

}  // namespace

::testing::AssertionResult within(double error, double bound, const char* file, int line) {
  if (ToleranceLog* log = tolerance_log()) log->note(file, line, {error, bound});
  if (error <= bound) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << fmt::format("an error of {:.6g} where {:.6g} is allowed", error, bound);
}

}  // namespace wmtp::test
