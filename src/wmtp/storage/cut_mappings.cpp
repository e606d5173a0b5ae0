#include "wmtp/storage/cut_mappings.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "wmtp/core/error.h"

namespace wmtp::storage {
namespace {

// Nodes are used again and never freed: the handler may walk the list at any time. It takes a node
// as it finds it only if `version` is even and the same before and after, so never half a change.
struct Mapping {
  std::atomic<std::uint64_t> version = 0;
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::size_t> size = 0;  // 0: free
  std::string path;                   // read only while a page of the mapping is being touched
  Mapping* next = nullptr;
};

std::atomic<Mapping*> first_mapping = nullptr;
std::mutex mappings_mutex;  // of those who change the list
struct sigaction earlier_action {};

void change(Mapping& mapping, std::uintptr_t begin, std::size_t size) {
  ++mapping.version;
  mapping.begin = begin;
  mapping.size = size;
  ++mapping.version;
}

const Mapping* find_mapping(std::uintptr_t address) {
  for (const Mapping* at = first_mapping; at; at = at->next) {
    const std::uint64_t version = at->version;
    const std::uintptr_t begin = at->begin;
    const std::size_t size = at->size;
    const bool inside = size > 0 && address >= begin && address - begin < size;
    if (inside && version % 2 == 0 && at->version == version) return at;
  }
  return nullptr;
}

// Text and numbers for stderr without memory or locks.
class SignalSafeLine {
 public:
  SignalSafeLine& operator<<(std::string_view text) {
    const std::size_t count = std::min(text.size(), text_.size() - length_);
    std::copy_n(text.begin(), count, text_.begin() + static_cast<std::ptrdiff_t>(length_));
    length_ += count;
    return *this;
  }
  SignalSafeLine& operator<<(std::uint64_t number) {
    std::array<char, 20> digits{};
    std::size_t begin = digits.size();
    do {
      digits[--begin] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0);
    return *this << std::string_view(digits.data() + begin, digits.size() - begin);
  }
  void write() const {
    [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text_.data(), length_);
  }

 private:
  std::array<char, 4608> text_{};
  std::size_t length_ = 0;
};

extern "C" void end_by_bus_error(int signal, siginfo_t* info, void*) {
  const bool by_access = info->si_code > 0;  // not sent by a process
  const Mapping* mapping =
      by_access ? find_mapping(reinterpret_cast<std::uintptr_t>(info->si_addr)) : nullptr;
  if (!mapping) {
    // Back to what stood before; an access is repeated on return, a sent signal is not.
    ::sigaction(signal, &earlier_action, nullptr);
    if (!by_access) ::raise(signal);
    return;
  }
  struct stat now {};
  const bool known = ::stat(mapping->path.c_str(), &now) == 0;
  const auto size_now = known ? static_cast<std::uint64_t>(now.st_size) : 0;
  SignalSafeLine line;
  line << "wmtp: [storage] " << mapping->path;
  if (known && size_now >= mapping->size)
    line << " cannot be read any more: its disk fails, or it was cut and written again while it "
            "was in use";
  else
    line << " was cut from " << std::uint64_t{mapping->size} << " to " << size_now
         << " bytes while it was in use";
  line << "; bring it back, or remove it if it is a cache (.widx, .wtok): it is built again\n";
  line.write();
  ::_exit(static_cast<int>(ExitCode::storage));
}

}  // namespace

void end_on_cut_mappings() {
  struct sigaction action {};
  action.sa_sigaction = end_by_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, &earlier_action);
}

void remember_mapping(const std::byte* data, std::size_t size, const std::filesystem::path& path) {
  const std::lock_guard lock(mappings_mutex);
  Mapping* free = first_mapping;
  while (free && free->size > 0) free = free->next;
  Mapping* mapping = free ? free : new Mapping;
  mapping->path = path.string();
  change(*mapping, reinterpret_cast<std::uintptr_t>(data), size);
  if (free) return;
  mapping->next = first_mapping;
  first_mapping = mapping;
}

void forget_mapping(const std::byte* data) {
  const std::lock_guard lock(mappings_mutex);
  for (Mapping* at = first_mapping; at; at = at->next)
    if (at->size > 0 && at->begin == reinterpret_cast<std::uintptr_t>(data))
      return change(*at, 0, 0);
}

}  // namespace wmtp::storage
