#include "wmtp/core/log/line_recorder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "wmtp/core/error.h"
#include "wmtp/core/printable.h"
#include "wmtp/core/time.h"

namespace wmtp::log {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return printable(name.data());
}

std::string json_line(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

bool make_log_folder(const std::filesystem::path& folder) {
  std::error_code status;
  if (folder.empty()) return true;
  const bool made = std::filesystem::create_directories(folder, status);
  if (made) std::filesystem::permissions(folder, std::filesystem::perms::owner_all, status);
  if (status) errno = status.value();
  return !status;
}

[[noreturn]] void refuse_place(const std::filesystem::path& path, std::string_view what) {
  throw Error(ErrorKind::io, "log", fmt::format("{} is {}", path.string(), what),
              "remove it, or set logging.dir to another folder, or logging.rank_files: false");
}

// Invalid with errno set: it cannot be opened.
UniqueFd open_regular(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO must not hang before we can see that it is one.
  constexpr int kFlags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  UniqueFd file(::open(path.c_str(), kFlags, 0600));
  if (!file && errno == ELOOP) refuse_place(path, "a symbolic link; it is not followed");
  if (!file && errno == EISDIR) refuse_place(path, "a folder");
  struct stat status {};
  if (file && ::fstat(file.get(), &status) == 0 && !S_ISREG(status.st_mode))
    refuse_place(path, "not a regular file");
  return file;
}

bool ends_within_line(const UniqueFd& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || status.st_size == 0) return false;
  char last = 0;
  return ::pread(file.get(), &last, 1, status.st_size - 1) == 1 && last != '\n';
}

bool was_removed(const UniqueFd& file) {
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 && status.st_nlink == 0;
}

bool append_all(const UniqueFd& file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::write(file.get(), text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(done));
  }
  return true;
}

}  // namespace

std::string_view name_of(Level level) {
  switch (level) {
    case Level::debug:
      return "debug";
    case Level::info:
      return "info";
    case Level::warn:
      return "warning";
    case Level::error:
      return "error";
  }
  return "info";
}

std::string LineRecorder::open(const FileOptions& options) {
  options_ = options;
  const std::vector<Line> early = std::move(early_);
  close();
  const bool has_folder = make_log_folder(options.path.parent_path());
  if (has_folder) file_ = open_regular(options.path);
  if (!file_) return end(std::strerror(errno));
  state_ = State::open;
  // A start that was killed, or ran out of disk, may have left half a line.
  std::string text = ends_within_line(file_) ? "\n" : "";
  text += start_mark();
  for (const Line& line : early)
    if (line.level >= options.level) text += format(line);
  if (num_early_lost_ > 0)
    text += format(
        {Level::warn, utc_timestamp(), "log",
         fmt::format("{} messages before this file was opened are missing here", num_early_lost_)});
  return append(text);
}

std::string LineRecorder::add(Line line) {
  if (state_ == State::open && line.level >= options_.level) return append(format(line));
  if (state_ != State::early) return "";
  if (early_.size() < kMaxEarlyLines)
    early_.push_back(std::move(line));
  else
    ++num_early_lost_;
  return "";
}

void LineRecorder::close() {
  state_ = State::closed;
  early_.clear();
  file_.reset();
}

std::string LineRecorder::append(const std::string& text) {
  if (was_removed(file_)) return end("it was removed");
  return append_all(file_, text) ? "" : end(std::strerror(errno));
}

std::string LineRecorder::end(std::string_view why) {
  close();
  return fmt::format("cannot write to {}: {}; the log file of this rank ends here",
                     options_.path.string(), why);
}

std::string LineRecorder::start_mark() const {
  if (!options_.json)
    return format(
        {Level::info, utc_timestamp(), "log",
         fmt::format("==== start: rank {} of {}, pid {}, host {}, restart {} ====", options_.rank,
                     options_.world, ::getpid(), host_name(), options_.restart_count)});
  return json_line({{"type", "start"},
                    {"ts", utc_timestamp()},
                    {"rank", options_.rank},
                    {"world", options_.world},
                    {"pid", ::getpid()},
                    {"host", host_name()},
                    {"restart", options_.restart_count}});
}

std::string LineRecorder::format(const Line& line) const {
  if (options_.json)
    return json_line({{"type", line.level >= Level::error  ? "error"
                               : line.level == Level::warn ? "warning"
                                                           : "log"},
                      {"ts", line.time},
                      {"level", name_of(line.level)},
                      {"module", line.module},
                      {"message", line.text},
                      {"rank", options_.rank}});
  std::string lines;
  std::string_view rest = line.text;
  do {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    lines += fmt::format("{} {} [{}] {}\n", line.time, name_of(line.level), line.module,
                         rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  } while (!rest.empty());
  return lines;
}

}  // namespace wmtp::log
