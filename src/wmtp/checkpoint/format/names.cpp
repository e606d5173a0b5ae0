#include "wmtp/checkpoint/format/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "wmtp/core/error.h"

namespace wmtp::checkpoint {
namespace {

constexpr std::string_view kEnding = "steps";
constexpr std::size_t kMaxPartBytes = 128;

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

}  // namespace

std::string checkpoint_name(std::string_view model, std::int64_t step) {
  return fmt::format("{}-{}{}", model, step, kEnding);
}

std::optional<CheckpointName> parse_checkpoint_name(std::string_view name) {
  if (!name.ends_with(kEnding) || name.starts_with('.')) return std::nullopt;
  name.remove_suffix(kEnding.size());
  const auto dash = name.rfind('-');
  if (dash == name.npos || dash == 0) return std::nullopt;
  const std::string_view digits = name.substr(dash + 1);
  if (digits.empty() || (digits.size() > 1 && digits.front() == '0')) return std::nullopt;
  CheckpointName parsed{std::string(name.substr(0, dash)), 0};
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, parsed.step);
  if (error != std::errc() || stop != end || parsed.step < 0 || digits.front() == '-')
    return std::nullopt;
  return parsed;
}

std::string hidden_name(std::string_view name, std::string_view mark, std::string_view tag) {
  return fmt::format(".{}.{}-{}", name, mark, tag);
}

std::optional<HiddenName> parse_hidden_name(std::string_view entry) {
  if (!entry.starts_with('.')) return std::nullopt;
  entry.remove_prefix(1);
  for (const std::string_view mark : {"tmp", "old"})
    if (const auto at = entry.find(fmt::format(".{}-", mark)); at != entry.npos && at != 0)
      return HiddenName{std::string(entry.substr(0, at)), std::string(mark)};
  return std::nullopt;
}

std::string_view name_of(Part part) {
  return part == Part::model ? "model" : "optim";
}

std::string shard_file_name(int rank, int kind) {
  return fmt::format("shard-{:05}-model-{:05}-of-00003.safetensors", rank + 1, kind);
}

void check_name_part(std::string_view text, std::string_view what) {
  if (text.empty() || text.size() > kMaxPartBytes || text.front() == '.' ||
      !std::all_of(text.begin(), text.end(), is_plain))
    throw Error(ErrorKind::config, "checkpoint",
                fmt::format("the {} \"{:.140}\" cannot be part of a file name", what, text),
                "1 to 128 letters, digits, '.', '_' or '-', not beginning with '.'");
}

}  // namespace wmtp::checkpoint
