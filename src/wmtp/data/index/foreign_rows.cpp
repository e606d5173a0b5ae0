#include "wmtp/data/index/foreign_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "wmtp/core/error.h"
#include "wmtp/core/printable.h"
#include "wmtp/data/index/line_chunks.h"
#include "wmtp/data/index/row_schema.h"
#include "wmtp/data/index/source_file.h"

namespace wmtp::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLookedAtBytes = std::size_t{1} << 16;

// The file's name without a compression's ending.
std::string plain_name(const fs::path& file) {
  const std::string ending = file.extension().string();
  return (ending == ".gz" || ending == ".zst" ? file.stem() : file.filename()).string();
}

// `command` with the file on its standard input and the rows in a new file beside it.
std::string piped(const fs::path& file, std::string_view command) {
  const fs::path name = plain_name(file);
  const std::string in = shell_word(file.string());
  const std::string out =
      shell_word((file.parent_path() / fmt::format("{}{}.jsonl", name.stem().string(),
                                                   name.extension() == ".jsonl" ? "-rows" : ""))
                     .string());
  if (file.extension() == ".gz") return fmt::format("gzip -dc {} | {} > {}", in, command, out);
  if (file.extension() == ".zst") return fmt::format("zstd -dc {} | {} > {}", in, command, out);
  return fmt::format("{} < {} > {}", command, in, out);
}

[[noreturn]] void refuse_format(const fs::path& file, std::string_view what,
                                std::string_view command) {
  throw Error(ErrorKind::data, "data",
              fmt::format("{} is {}; rows are JSON Lines, one object a line", file.string(), what),
              "make them with: " + piped(file, command));
}

struct PromptKeys {
  std::string_view prompt, response;
};
constexpr std::array<PromptKeys, 6> kPromptKeys{{{"prompt", "completion"},
                                                 {"prompt", "response"},
                                                 {"question", "answer"},
                                                 {"query", "response"},
                                                 {"instruction", "response"},
                                                 {"input", "output"}}};

// Lists of turns, and what holds the text of one.
constexpr std::array<PromptKeys, 2> kTurnKeys{
    {{"messages", "content"}, {"conversations", "value"}}};

}  // namespace

void refuse_other_formats(const fs::path& file) {
  LineChunkSource source(file, kLookedAtBytes, kLookedAtBytes);
  LineChunk chunk;
  if (!source.next(chunk)) return;
  std::string_view bytes = chunk.bytes;
  if (bytes.starts_with(kByteOrderMark)) bytes.remove_prefix(kByteOrderMark.size());
  if (bytes.starts_with("PAR1"))
    refuse_format(file, "a Parquet file",
                  "python3 -c \"import pandas, sys; print(pandas.read_parquet(sys.stdin.buffer)"
                  ".to_json(orient='records', lines=True), end='')\"");
  const std::size_t begin = bytes.find_first_not_of(" \t\r\n");
  if (begin == bytes.npos) return;
  bytes.remove_prefix(begin);
  const std::string_view first = bytes.substr(0, bytes.find_first_of("\r\n"));
  const std::size_t second = bytes.find_first_not_of(" \t\r\n", 1);
  if (bytes.starts_with('[') && second != bytes.npos && bytes[second] == '{')
    refuse_format(file, "a JSON array", "jq -c '.[]'");
  const bool tabs = plain_name(file).ends_with(".tsv");
  if ((tabs || plain_name(file).ends_with(".csv")) && !bytes.starts_with('{'))
    refuse_format(file, tabs ? "a TSV file" : "a CSV file",
                  fmt::format("python3 -c \"import csv, json, sys; [print(json.dumps(row)) for row "
                              "in csv.DictReader(sys.stdin{})]\"",
                              tabs ? ", delimiter='\\t'" : ""));
  if (first == "{" && first.size() < bytes.size())
    refuse_format(file, "JSON over several lines", "jq -c .");
}

std::string conversion_hint(const fs::path& file, const std::vector<std::string>& keys) {
  const auto has = [&](std::string_view key) { return std::ranges::find(keys, key) != keys.end(); };
  for (const auto& [prompt, response] : kPromptKeys)
    if (has(prompt) && has(response))
      return fmt::format(
          "give them these names: {}; dataset.prompt_template: raw takes the prompt as it stands",
          piped(file,
                fmt::format("jq -c '. + {{instruction: .{}, output: .{}}}'", prompt, response)));
  for (const auto& [turns, text] : kTurnKeys)
    if (has(turns))
      return fmt::format(
          "make the last turn the output: {}; dataset.prompt_template: chatml is for chat models",
          piped(file,
                fmt::format("jq -c '. + {{instruction: (.{0}[:-1] | map(.{1}) | join(\"\\n\\n\")), "
                            "output: .{0}[-1].{1}}}'",
                            turns, text)));
  for (const std::string_view list : {"data", "rows", "examples", "instances", "train"})
    if (keys.size() == 1 && has(list))
      return "take the list out of it: " + piped(file, fmt::format("jq -c '.{}[]'", list));
  return "";
}

}  // namespace wmtp::data
