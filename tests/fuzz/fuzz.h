// A fuzz target hands any bytes to one parser. It may answer or throw wmtp::Error; a crash, another
// exception, ErrorKind::internal, a second of CPU time and a broken require() are faults. One
// source per target, all in one program; libfuzzer.cpp has it fuzzed, replay.cpp reads the corpora.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/storage/open_file.h"

namespace wmtp::fuzz {

using Bytes = std::span<const std::byte>;

struct Target {
  std::string_view name;
  void (*read)(Bytes);
};
std::vector<Target>& targets();
const Target* find_target(std::string_view name);  // nullptr: there is none
struct AddTarget {
  explicit AddTarget(Target target) { targets().push_back(target); }
};

// Hands the target a copy that ends where the bytes end, so that AddressSanitizer sees one read too
// many; returns whether they were accepted.
bool run(const Target& target, Bytes bytes);

// Ends the process: the parser has accepted what means nothing.
void require(bool held, std::string_view what);

inline std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Bytes bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// A file without a disk, for parsers that open or map one.
class MemoryFile {
 public:
  explicit MemoryFile(Bytes bytes);
  std::filesystem::path path() const;  // valid as long as this object
 private:
  UniqueFd file_;
};

}  // namespace wmtp::fuzz

// WMTP_FUZZ_TARGET(yaml) { body over `bytes` }
#define WMTP_FUZZ_TARGET(target)                                               \
  static void read_##target(::wmtp::fuzz::Bytes bytes);                        \
  static const ::wmtp::fuzz::AddTarget add_##target({#target, read_##target}); \
  static void read_##target(::wmtp::fuzz::Bytes bytes)
