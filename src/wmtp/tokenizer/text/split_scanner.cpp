#include "wmtp/tokenizer/text/split_scanner.h"

#include <array>

namespace wmtp::tokenizer {
namespace {

constexpr std::array kPatterns{KnownPattern::qwen, KnownPattern::llama3, KnownPattern::gpt2};
constexpr std::array<std::string_view, 3> kNames{"qwen", "llama3", "gpt2"};
constexpr std::array<std::string_view, 3> kRegexes{
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"};

}  // namespace

std::optional<KnownPattern> known_pattern(std::string_view regex) {
  for (const KnownPattern pattern : kPatterns)
    if (regex == regex_of(pattern)) return pattern;
  return std::nullopt;
}

std::string_view regex_of(KnownPattern pattern) {
  return kRegexes.at(static_cast<std::size_t>(pattern));
}

std::string_view name_of(KnownPattern pattern) {
  return kNames.at(static_cast<std::size_t>(pattern));
}

}  // namespace wmtp::tokenizer
