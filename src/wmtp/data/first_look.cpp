#include "wmtp/data/first_look.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/data/file_format.h"
#include "wmtp/data/index/line_chunks.h"
#include "wmtp/data/index/row_schema.h"
#include "wmtp/data/index/source_file.h"

namespace wmtp::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kCountedBytes = std::uint64_t{64} << 20;
constexpr std::size_t kEncodedBytes = std::size_t{64} << 10;

struct Look {
  const DatasetOptions& options;
  const tokenizer::Tokenizer* tokenizer;
  fs::path file;
  Format format;
  RowParser parser = {};
  std::uint64_t num_lines = 0;                          // looked at
  bool judged = false;                                  // the first that is not blank is among them
  std::uint64_t encoded_bytes = 0, encoded_tokens = 0;  // of text

  bool wants_text() const { return format == Format::text && encoded_bytes < kEncodedBytes; }
};

void refuse_if_bad(const Look& look, std::optional<BadLine> bad) {
  if (!bad || look.options.bad_lines.on_bad_line != OnBadLine::stop) return;
  bad->row = look.num_lines - 1;
  throw Error(ErrorKind::data, "data", format_bad_line(look.file.string(), *bad),
              "dataset.on_bad_line: skip passes bad lines over");
}

// `bytes` of the file hold `text`.
void encode_text(Look& look, std::string_view text, std::size_t bytes) {
  if (!look.tokenizer || text.empty()) return;
  // A character that the limit cuts is left out.
  std::size_t end = std::min(text.size(), kEncodedBytes);
  while (end < text.size() && end > 1 && (text[end] & 0xC0) == 0x80) --end;
  look.encoded_tokens += look.tokenizer->encode(text.substr(0, end)).size();
  look.encoded_bytes += std::max<std::size_t>(1, bytes * end / text.size());
}

// A line of JSON.
void look_at_document(Look& look, const Line& line) {
  std::string_view text;
  const auto bad = look.parser.parse_text(line, look.options.text.column, text);
  if (!look.judged) refuse_if_bad(look, bad);
  if (!bad) encode_text(look, text, line.text.size() + 1);
}

void look_at_line(Look& look, const Line& line) {
  ++look.num_lines;
  if (is_blank(line.text)) return;
  if (look.format != Format::text && !look.judged) {
    Row row;
    refuse_if_bad(look, look.parser.parse(line, row));
  }
  if (look.wants_text() && !is_text_file(look.file)) look_at_document(look, line);
  look.judged = true;
}

AboutRows about_rows(Look& look) {
  LineChunkSource source(look.file, look.options.bad_lines.max_line_bytes, std::size_t{1} << 20);
  const bool compressed = look.file.extension() == ".gz" || look.file.extension() == ".zst";
  LineChunk chunk;
  std::uint64_t lines = 0;
  bool whole = false;
  while (source.bytes_consumed() < kCountedBytes && !(whole = !source.next(chunk))) {
    if (chunk.overlong_bytes == 0 && (!look.judged || look.wants_text()))
      for_each_line(chunk, [&](const Line& line) { look_at_line(look, line); });
    if (look.wants_text() && is_text_file(look.file))
      encode_text(look, chunk.bytes, chunk.bytes.size());
    lines += static_cast<std::uint64_t>(std::ranges::count(chunk.bytes, '\n')) +
             (chunk.overlong_bytes > 0 || !chunk.bytes.ends_with('\n') ? 1 : 0);
  }
  if (!look.judged)
    throw Error(ErrorKind::data, "data", fmt::format("{} holds no row", look.file.string()));
  if (look.format == Format::text && look.encoded_bytes == 0) return std::nullopt;
  if (compressed && !whole) return std::nullopt;
  const double bytes =
      static_cast<double>(compressed ? source.bytes_consumed() : source.file_bytes());
  if (look.format == Format::text)
    return static_cast<std::uint64_t>(bytes * static_cast<double>(look.encoded_tokens) /
                                      static_cast<double>(look.encoded_bytes) /
                                      look.options.max_length);
  const double part = bytes / static_cast<double>(source.bytes_consumed());
  return static_cast<std::uint64_t>(static_cast<double>(lines) * (whole ? 1.0 : part));
}

}  // namespace

AboutRows look_at_files(const DatasetOptions& options, const tokenizer::Tokenizer* tokenizer) {
  AboutRows sum = 0;
  Format before = Format::automatic;
  for (const fs::path& file : expand_files(options.files)) {
    const Format format = format_of(file, options);
    if (before != Format::automatic && format != before)
      throw Error(ErrorKind::config, "data",
                  fmt::format("{} is of another format than the files before it", file.string()));
    before = format;
    if (format == Format::tokens) {
      sum.reset();
      continue;
    }
    Look look{options, tokenizer, file, format};
    const AboutRows rows = about_rows(look);
    sum = sum && rows ? AboutRows(*sum + *rows) : std::nullopt;
  }
  return sum;
}

}  // namespace wmtp::data
