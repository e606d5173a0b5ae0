// Typed access to the fields of a tokenizer file's JSON, with errors that name file and place.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "wmtp/core/json.h"

namespace wmtp::tokenizer {

inline constexpr int kMaxSequenceDepth = 8;  // of Sequences inside each other

// An object inside a tokenizer file. BORROWS the JSON.
class JsonFields {
 public:
  // Error data if `value` is not an object. `place` reads like "pre_tokenizer.pretokenizers[1]".
  JsonFields(const Json& value, std::string file, std::string place);

  const Json& require(const char* key) const;  // Error data if absent
  const Json* find(const char* key) const;     // null and absent alike: nullptr
  std::string string(const char* key) const;   // required
  std::optional<std::string> optional_string(const char* key) const;
  bool boolean(const char* key, bool fallback) const;
  std::int64_t integer(const char* key) const;  // required
  std::string type() const { return string("type"); }
  JsonFields child(const char* key) const;  // required object
  // The i-th object of a list (required).
  JsonFields element(const char* key, std::size_t i) const;
  std::size_t list_size(const char* key) const;  // required list

  [[noreturn]] void damaged(std::string_view fact) const;      // 65: contradicts the format
  [[noreturn]] void unsupported(std::string_view fact) const;  // 78: well formed, not supported
  const std::string& file() const { return file_; }

 private:
  const Json& value_;
  std::string file_, place_;
};

}  // namespace wmtp::tokenizer
