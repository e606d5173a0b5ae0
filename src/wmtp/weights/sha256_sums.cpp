#include "wmtp/weights/sha256_sums.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "wmtp/core/checksum.h"
#include "wmtp/core/error.h"
#include "wmtp/core/file.h"
#include "wmtp/core/log.h"
#include "wmtp/storage/mapped_file.h"

namespace wmtp::weights {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSumsFile = "SHA256SUMS";
constexpr std::size_t kMaxSumsBytes = std::size_t{1} << 20, kSumDigits = 64;
constexpr std::size_t kHashPiece = std::size_t{16} << 20;
constexpr std::size_t kWorthTelling = std::size_t{1} << 30;

struct ListedSum {
  std::string sum, name;
};

[[noreturn]] void refuse_sum(std::string_view fact, std::string_view hint) {
  throw Error(ErrorKind::data, "checkpoint", std::string(fact), std::string(hint));
}

// "<64 hex digits>  <name>", with a star before the name for files read as binary.
ListedSum parse_sum(std::string_view line, std::string_view place) {
  const std::string_view sum = line.substr(0, kSumDigits);
  const bool is_sum =
      sum.size() == kSumDigits && sum.find_first_not_of("0123456789abcdefABCDEF") == sum.npos;
  const std::string_view rest = is_sum ? line.substr(kSumDigits) : "";
  if (rest.size() < 3 || rest[0] != ' ' || (rest[1] != ' ' && rest[1] != '*'))
    refuse_sum(fmt::format("{}: no line of sha256sum", place), "is the file complete?");
  ListedSum listed{std::string(sum), std::string(rest.substr(2))};
  std::transform(sum.begin(), sum.end(), listed.sum.begin(),
                 [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c | 0x20) : c; });
  return listed;
}

std::string sum_of(const storage::MappedFile& file) {
  if (file.size() >= kWorthTelling)
    log::info("checkpoint", "checking the SHA-256 of {} ({:.1f} GiB)", file.path().string(),
              static_cast<double>(file.size()) / static_cast<double>(1 << 30));
  file.advise(storage::Access::sequential);
  Sha256 hash;
  for (std::size_t at = 0; at < file.size(); at += kHashPiece) {
    const std::size_t count = std::min(kHashPiece, file.size() - at);
    hash.update(file.bytes().subspan(at, count));
    file.drop(at, at + count);
  }
  file.advise(storage::Access::normal);
  return to_hex(hash.finish());
}

// Models are opened several times in a run; a file that is still the same is not read again.
class CheckedFiles {
 public:
  static CheckedFiles& instance() {
    static CheckedFiles files;
    return files;
  }
  bool knows(const std::string& mark) {
    const std::lock_guard lock(mutex_);
    return marks_.contains(mark);
  }
  void add(const std::string& mark) {
    const std::lock_guard lock(mutex_);
    marks_.insert(mark);
  }

 private:
  std::mutex mutex_;
  std::set<std::string> marks_;
};

std::string mark_of(const UniqueFd& file, const std::string& sum) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return "";
  return fmt::format("{} {} {} {} {}.{} {}", status.st_dev, status.st_ino, status.st_size,
                     status.st_ctim.tv_sec, status.st_mtim.tv_sec, status.st_mtim.tv_nsec, sum);
}

void check_listed(const fs::path& folder, const ListedSum& listed) {
  const fs::path sums = folder / kSumsFile;
  UniqueFd file = storage::open_beneath(folder, listed.name, sums.string(),
                                        storage::Links::allow_bare_name, ErrorKind::data);
  const std::string mark = mark_of(file, listed.sum);
  if (!mark.empty() && CheckedFiles::instance().knows(mark)) return;
  const std::string found = sum_of(storage::MappedFile::map(std::move(file), folder / listed.name));
  if (found != listed.sum)
    refuse_sum(fmt::format("{} has the SHA-256 {}, {} says {}", (folder / listed.name).string(),
                           found, sums.string(), listed.sum),
               "the file is damaged or was changed; fetch or convert it again");
  CheckedFiles::instance().add(mark);
}

}  // namespace

void check_sha256_sums(const fs::path& folder) {
  const fs::path path = folder / kSumsFile;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  const std::string text = read_file(path, kMaxSumsBytes, ErrorKind::data);
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1, ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty())
      check_listed(folder, parse_sum(line, fmt::format("{}:{}", path.string(), number)));
  }
}

}  // namespace wmtp::weights
