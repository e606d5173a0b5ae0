// A .widx or .wtok file from a fuzz input: the fields of its header (232 bytes), its facts, its
// body. The zeros between them and all checksums are filled in, so that what lies behind them is
// reached.
#pragma once
#include <cstring>
#include <string>

#include "fuzz/fuzz.h"
#include "wmtp/core/checksum.h"
#include "wmtp/data/sections/section_file.h"

namespace wmtp::fuzz {

inline std::string section_file(Bytes input, std::size_t facts_bytes) {
  constexpr std::size_t kFields = 232, kFacts = 512, kCrcOffset = 32, kChunk = std::size_t{1} << 20;
  const std::string_view text = text_of(input);
  const auto part = [&](std::size_t begin, std::size_t size) {
    return begin < text.size() ? text.substr(begin, size) : std::string_view{};
  };
  std::string file(part(0, kFields));
  file.resize(kFacts);
  file += part(kFields, facts_bytes);
  file.resize(data::kHeaderBytes);
  file += part(kFields + facts_bytes, text.npos);
  const auto put = [&](std::size_t at, std::uint32_t value) {
    std::memcpy(file.data() + at, &value, sizeof value);
  };
  std::uint64_t crc_offset = 0;
  std::memcpy(&crc_offset, file.data() + kCrcOffset, sizeof crc_offset);
  for (std::uint64_t at = data::kHeaderBytes, crc = crc_offset;
       at < crc_offset && crc_offset <= file.size() && file.size() - crc >= 4;
       at += kChunk, crc += 4)
    put(crc, crc32c(std::string_view(file).substr(at, std::min(kChunk, crc_offset - at))));
  put(data::kHeaderBytes - 4, crc32c(std::string_view(file).substr(0, data::kHeaderBytes - 4)));
  return file;
}

}  // namespace wmtp::fuzz
