// Typed access to the keys of a configuration file: null counts as absent, and every error names
// the file and the key. All errors are ErrorKind::config.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/core/json.h"

namespace wmtp::model {

// The most that a limit may say; what is beyond it, or beyond 64 bits, means "no limit".
inline constexpr std::int64_t kNoLimit = std::int64_t{1} << 32;

class JsonFields {
 public:
  // BORROWS `object`. REQUIRES that `object` outlives this. `origin` is a path for messages,
  // `prefix` the key path of the object ("rope_scaling." or "").
  JsonFields(const Json& object, std::string origin, std::string prefix = "");

  bool has(std::string_view key) const { return find(key) != nullptr; }
  std::optional<std::int64_t> integer(std::string_view key) const;
  // A bound such as a number of positions, kNoLimit at most.
  std::optional<std::int64_t> limit(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  // A number or a list of numbers.
  std::vector<std::int64_t> integers(std::string_view key) const;
  std::optional<JsonFields> object(std::string_view key) const;

  std::int64_t required_integer(std::string_view key) const;
  double required_number(std::string_view key) const;

  const Json* find(std::string_view key) const;  // nullptr: absent or null
  const Json& json() const { return *object_; }
  const std::string& origin() const { return origin_; }
  // Refuses the file because of this key: "<origin>: <key> <fact>".
  [[noreturn]] void refuse(std::string_view key, std::string_view fact,
                           std::string_view hint = {}) const;

 private:
  const Json* object_;
  std::string origin_, prefix_;
};

}  // namespace wmtp::model
