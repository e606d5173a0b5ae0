#include "wmtp/tracking/mlflow/rest/limits.h"

#include <fmt/format.h>

#include "wmtp/core/checksum.h"
#include "wmtp/core/utf8.h"

namespace wmtp::tracking::mlflow {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::size_t kDigestDigits = 8;

bool is_key_character(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
         std::string_view("_/.- :").find(c) != std::string_view::npos;
}

// Calls `take` with each part between slashes, empty ones included.
template <class Take>
void for_each_segment(std::string_view path, Take take) {
  for (;;) {
    const std::size_t slash = path.find('/');
    take(path.substr(0, slash));
    if (slash == path.npos) return;
    path.remove_prefix(slash + 1);
  }
}

// Legal characters and segments, whatever the length.
std::string mend_key(std::string_view key) {
  std::string mended;
  for_each_segment(key, [&](std::string_view segment) {
    if (segment.empty() || segment == ".") return;
    if (!mended.empty()) mended += '/';
    if (segment == "..") segment = "__";
    for (std::size_t at = 0; at < segment.size();) {
      // One mark for a character, not for each of its bytes.
      const std::size_t size = first_utf8_char(segment.substr(at)).size;
      mended += is_key_character(segment[at]) ? segment[at] : '_';
      at += size > 0 ? size : 1;
    }
  });
  if (mended.starts_with("..")) mended[0] = '_';
  return mended;
}

Fitted fit_value(std::string_view value, std::size_t limit) {
  Fitted fitted;
  std::size_t length = 0;
  for (std::size_t at = 0; at < value.size() && length < limit; ++length) {
    const Utf8Char next = first_utf8_char(value.substr(at));
    if (next.size == 0 || next.code == 0)
      fitted.text += kReplacement;
    else
      fitted.text += value.substr(at, next.size);
    at += next.size > 0 ? next.size : 1;
  }
  fitted.is_changed = fitted.text != value;
  return fitted;
}

}  // namespace

bool is_legal_key(std::string_view key) {
  if (key.empty() || key.size() > kMaxKeyLength || key.starts_with("..")) return false;
  for (const char c : key)
    if (!is_key_character(c)) return false;
  bool is_normal = true;
  for_each_segment(key, [&](std::string_view segment) {
    if (segment.empty() || segment == "." || segment == "..") is_normal = false;
  });
  return is_normal;
}

Fitted fit_key(std::string_view key) {
  if (is_legal_key(key)) return {std::string(key), false};
  const std::string digest = sha256_hex(key).substr(0, kDigestDigits);
  std::string mended = mend_key(key).substr(0, kMaxKeyLength - kDigestDigits - 1);
  // Behind the cut a slash or a dot would be a segment that means nothing, or another one.
  return {mended.empty() ? "_" + digest : mended + "_" + digest, true};
}

Fitted fit_param(std::string_view value) {
  return fit_value(value, kMaxParamLength);
}

Fitted fit_tag(std::string_view value) {
  return fit_value(value, kMaxTagLength);
}

Fitted fit_name(std::string_view name) {
  if (name.empty()) return {"_", true};
  return fit_value(name, kMaxExperimentLength);
}

}  // namespace wmtp::tracking::mlflow
