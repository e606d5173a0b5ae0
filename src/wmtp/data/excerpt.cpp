#include "wmtp/data/excerpt.h"

#include <fmt/format.h>

#include <string>

#include "wmtp/core/error.h"
#include "wmtp/data/file_format.h"
#include "wmtp/data/index/line_chunks.h"
#include "wmtp/data/index/source_file.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::data {
namespace {

namespace fs = std::filesystem;

struct Beginning {
  std::string text;
  bool whole = true;  // the file ends with it
};

bool is_enough(const Beginning& taken, std::uint64_t num_lines, bool is_text) {
  return is_text ? taken.text.size() >= kExcerptTextBytes : num_lines >= kExcerptRows;
}

// An overlong line is taken with its head alone: it is a bad one either way.
Beginning beginning_of(const fs::path& file, const DatasetOptions& options, bool is_text) {
  constexpr std::size_t kChunkBytes = std::size_t{256} << 10;
  LineChunkSource source(file, options.bad_lines.max_line_bytes, kChunkBytes);
  Beginning taken;
  std::uint64_t num_lines = 0;
  LineChunk chunk;
  while (taken.whole && source.next(chunk)) {
    const auto take = [&](std::string_view line) {
      if (is_enough(taken, num_lines, is_text)) {
        taken.whole = false;
        return;
      }
      taken.text.append(line) += '\n';
      ++num_lines;
    };
    if (chunk.overlong_bytes > 0)
      take(chunk.bytes);
    else
      for_each_line(chunk, [&](const Line& line) { take(line.text); });
  }
  return taken;
}

bool is_plain_text(const fs::path& file, const DatasetOptions& options) {
  return format_of(file, options) == Format::text;
}

}  // namespace

fs::path excerpt_path(const fs::path& file, std::size_t number, const DatasetOptions& options,
                      const fs::path& folder) {
  if (format_of(file, options) == Format::tokens) return file;
  return folder / std::to_string(number) /
         (stem_of(file) + (is_text_file(file) ? ".txt" : ".jsonl"));
}

bool write_excerpts(const DatasetOptions& options, const fs::path& folder) {
  bool left_out = false;
  const std::vector<fs::path> files = expand_files(options.files);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const fs::path path = excerpt_path(files[i], i, options, folder);
    if (path == files[i]) continue;
    const Beginning taken = beginning_of(files[i], options, is_plain_text(files[i], options));
    left_out = left_out || !taken.whole;
    std::error_code status;
    fs::create_directories(path.parent_path(), status);
    if (status)
      throw Error(
          ErrorKind::io, "data",
          fmt::format("cannot create {}: {}", path.parent_path().string(), status.message()));
    storage::write_file_atomically(path, taken.text);
  }
  return left_out;
}

std::vector<fs::path> excerpt_files(const DatasetOptions& options, const fs::path& folder) {
  std::vector<fs::path> files = expand_files(options.files);
  for (std::size_t i = 0; i < files.size(); ++i)
    files[i] = excerpt_path(files[i], i, options, folder);
  return files;
}

}  // namespace wmtp::data
