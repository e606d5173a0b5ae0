// Text that must reach nobody but the server it is for.
#pragma once
#include <fmt/format.h>

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace wmtp::s3 {

// Prints as ***, is never converted to text by itself, and is overwritten when it goes. While one
// with text in it lives, the process leaves no core file (its soft limit is 0). THREADS: as a
// std::string.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string_view text);
  Secret(const Secret& other) : Secret(other.reveal()) {}
  Secret(Secret&& other) noexcept : bytes_(std::move(other.bytes_)) { other.bytes_.clear(); }
  Secret& operator=(Secret other) noexcept {
    bytes_.swap(other.bytes_);
    return *this;
  }
  ~Secret();

  // The text itself, for as long as this object lives.
  std::string_view reveal() const { return {bytes_.data(), bytes_.size()}; }
  bool empty() const { return bytes_.empty(); }
  bool operator==(const Secret& other) const { return bytes_ == other.bytes_; }

 private:
  std::vector<char> bytes_;  // not a string, whose short texts stay behind when it is moved
};

// Overwrites a text that held a secret, so that the compiler does not leave it out.
void wipe(std::string& text);

inline std::ostream& operator<<(std::ostream& out, const Secret& secret) {
  return out << (secret.empty() ? "" : "***");
}

}  // namespace wmtp::s3

template <>
struct fmt::formatter<wmtp::s3::Secret> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const wmtp::s3::Secret& secret, Context& context) const {
    return fmt::formatter<std::string_view>::format(secret.empty() ? "" : "***", context);
  }
};
