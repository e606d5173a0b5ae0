#include "wmtp/s3/secret.h"

#include <sys/resource.h>

#include <cstring>  // explicit_bzero
#include <mutex>

namespace wmtp::s3 {
namespace {

// Counts the secrets there are. The limit is the process's own, so the last one gives back what the
// first one took; a core file that a child writes between them is lost too.
class CoreFilesOff {
 public:
  void add() {
    const std::lock_guard lock(mutex_);
    if (num_secrets_++ > 0 || ::getrlimit(RLIMIT_CORE, &before_) != 0) return;
    const rlimit none{0, before_.rlim_max};
    is_set_ = ::setrlimit(RLIMIT_CORE, &none) == 0;
  }
  void remove() {
    const std::lock_guard lock(mutex_);
    if (--num_secrets_ > 0 || !is_set_) return;
    ::setrlimit(RLIMIT_CORE, &before_);
    is_set_ = false;
  }

 private:
  std::mutex mutex_;
  long num_secrets_ = 0;
  bool is_set_ = false;
  rlimit before_{};
};

CoreFilesOff& core_files_off() {
  static CoreFilesOff* const off = new CoreFilesOff;  // secrets of other statics may outlive it
  return *off;
}

}  // namespace

Secret::Secret(std::string_view text) : bytes_(text.begin(), text.end()) {
  if (!bytes_.empty()) core_files_off().add();
}

Secret::~Secret() {
  if (bytes_.empty()) return;
  ::explicit_bzero(bytes_.data(), bytes_.size());
  core_files_off().remove();
}

void wipe(std::string& text) {
  ::explicit_bzero(text.data(), text.size());
  text.clear();
}

}  // namespace wmtp::s3
