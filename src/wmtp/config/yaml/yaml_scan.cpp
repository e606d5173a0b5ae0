#include "wmtp/config/yaml/yaml_scan.h"

#include <fmt/format.h>

#include "wmtp/config/yaml/yaml_reader.h"
#include "wmtp/core/planted_fault.h"

namespace wmtp::config {
namespace {

// Bytes of the UTF-8 sequence at the start of `text`, 0 if it is not valid.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() + planted_off_by_one < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool surrogate = lead == 0xED && byte(1) > 0x9F;
  const bool beyond = lead == 0xF4 && byte(1) > 0x8F;
  return overlong || surrogate || beyond ? 0 : length;
}

bool is_control(unsigned char c) {
  return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
}

}  // namespace

std::optional<ScanProblem> scan_yaml(std::string_view text) {
  if (text.size() > YamlLimits::kBytes)
    return ScanProblem{
        {}, fmt::format("{} bytes, the limit is {} (1 MiB)", text.size(), YamlLimits::kBytes)};
  Place place{-1, 1, 1};
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = sequence_length(text.substr(i));
    if (length == 0)
      return ScanProblem{place, fmt::format("invalid UTF-8 at byte {} (0x{:02x})", i, byte)};
    if (is_control(byte))
      return ScanProblem{place, fmt::format("control character 0x{:02x} at byte {}", byte, i)};
    i += length;
    if (byte == '\n')
      place = {-1, place.line + 1, 1};
    else
      ++place.column;
  }
  return std::nullopt;
}

}  // namespace wmtp::config
