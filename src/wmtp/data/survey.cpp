#include "wmtp/data/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "wmtp/data/file_format.h"
#include "wmtp/data/index/foreign_rows.h"
#include "wmtp/data/index/line_chunks.h"
#include "wmtp/data/index/source_file.h"
#include "wmtp/data/tokens/encode_row.h"
#include "wmtp/data/tokens/token_cache.h"

namespace wmtp::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSurveyedBytes = std::uint64_t{64} << 20;
constexpr std::size_t kSurveyChunk = std::size_t{1} << 20;

struct ProblemClasses {
  std::uint64_t num_correct = 0, num_incorrect = 0;
};

class Surveyor {
 public:
  Surveyor(const DatasetOptions& options, const tokenizer::Tokenizer& tokenizer)
      : options_(options), encoder_(tokenizer, options.encode) {}

  void look_at(const fs::path& file) {
    survey_.format = format_of(file, options_);
    if (survey_.format == Format::tokens)
      count_token_rows(TokenCache::open(file));
    else if (!is_text_file(file))
      count_lines(file);
  }

  Survey finish() {
    for (const auto& [name, classes] : problems_)
      survey_.num_pairs += std::min(classes.num_correct, classes.num_incorrect);
    std::ranges::sort(survey_.lengths);
    survey_.ignored_keys = parser_.ignored_keys();
    return std::move(survey_);
  }

 private:
  bool wants_length() const { return survey_.lengths.size() < Survey::kMaxLengths; }

  void count_token_rows(const TokenCache& cache) {
    survey_.num_rows += cache.num_rows();
    for (std::uint32_t row = 0; row < cache.num_rows() && wants_length(); ++row)
      if (!(cache.flags(row) & kTokenRowEmpty)) survey_.lengths.push_back(cache.row_length(row));
  }

  void count_lines(const fs::path& file) {
    LineChunkSource source(file, options_.bad_lines.max_line_bytes, kSurveyChunk);
    LineChunk chunk;
    line_ = 0;
    bool more = true;
    while (bytes_before_ + source.bytes_consumed() < kSurveyedBytes && (more = source.next(chunk)))
      if (chunk.overlong_bytes > 0)
        note_bad(file, overlong(line_++, chunk.overlong_bytes));
      else
        for_each_line(chunk, [&](const Line& line) { look_at_line(file, line); });
    bytes_before_ += source.bytes_consumed();
    survey_.whole = survey_.whole && (!more || !source.next(chunk));
  }

  void look_at_line(const fs::path& file, const Line& line) {
    const std::uint64_t number = line_++;
    if (is_blank(line.text)) return;
    if (line.text.size() > options_.bad_lines.max_line_bytes)
      return note_bad(file, overlong(number, line.text.size()));
    auto bad = survey_.format == Format::text ? count_document(line) : count_row(line);
    if (!bad) {
      ++survey_.num_rows;
      return;
    }
    bad->row = number;
    note_bad(file, *bad);
  }

  BadLine overlong(std::uint64_t number, std::uint64_t bytes) const {
    return {BadCause::too_long, number, 1,
            fmt::format("the line has {} bytes, more than dataset.max_line_bytes: {}", bytes,
                        options_.bad_lines.max_line_bytes)};
  }

  void note_bad(const fs::path& file, const BadLine& bad) {
    if (survey_.num_bad++ == 0) survey_.first_bad = format_bad_line(file.string(), bad);
  }

  std::optional<BadLine> count_document(const Line& line) {
    std::string_view text;
    if (auto bad = parser_.parse_text(line, options_.text.column, text)) return bad;
    if (!wants_length() || is_blank(text)) return std::nullopt;
    encoder_.encode_document({text}, std::nullopt, encoded_);
    survey_.lengths.push_back(static_cast<std::uint32_t>(encoded_.ids.size()));
    return std::nullopt;
  }

  std::optional<BadLine> count_row(const Line& line) {
    Row row;
    if (auto bad = parser_.parse(line, row)) return bad;
    if (row.difficulty) count_difficulty(*row.difficulty);
    if (row.reward) {
      ++survey_.num_rewards;
      survey_.num_correct += row.correct() ? 1 : 0;
      if (const auto problem = problem_of(row)) {
        ProblemClasses& classes = problems_[std::string(*problem)];
        ++(row.correct() ? classes.num_correct : classes.num_incorrect);
      }
    }
    if (!wants_length()) return std::nullopt;
    encoder_.encode(row, encoded_);
    survey_.lengths.push_back(static_cast<std::uint32_t>(encoded_.ids.size()));
    return std::nullopt;
  }

  void count_difficulty(std::int16_t difficulty) {
    const bool first = survey_.num_difficulties++ == 0;
    survey_.min_difficulty = first ? difficulty : std::min(survey_.min_difficulty, difficulty);
    survey_.max_difficulty = first ? difficulty : std::max(survey_.max_difficulty, difficulty);
  }

  const DatasetOptions& options_;
  RowEncoder encoder_;
  RowParser parser_;
  EncodedRow encoded_;
  Survey survey_;
  std::map<std::string, ProblemClasses> problems_;
  std::uint64_t bytes_before_ = 0;  // looked at in files before this one
  std::uint64_t line_ = 0;          // of this file: the next one, from 0
};

// Bytes of text in each of `columns` that is a string in every good line of the first chunk; the
// others are left out.
std::map<std::string, std::uint64_t> text_columns(const fs::path& file,
                                                  const DatasetOptions& options,
                                                  std::vector<std::string> columns) {
  std::map<std::string, std::uint64_t> bytes;
  LineChunkSource source(file, options.bad_lines.max_line_bytes, kSurveyChunk);
  LineChunk chunk;
  if (!source.next(chunk) || chunk.overlong_bytes > 0) return bytes;
  RowParser parser;
  std::vector<std::string> names;
  for_each_line(chunk, [&](const Line& line) {
    if (is_blank(line.text) || parser.keys(line, names)) return;
    std::erase_if(columns, [&](const std::string& column) {
      std::string_view text;
      const bool is_text = !parser.parse_text(line, column, text);
      if (is_text) bytes[column] += text.size();
      return !is_text;
    });
  });
  std::erase_if(bytes, [&](const auto& one) {
    return std::ranges::find(columns, one.first) == columns.end();
  });
  return bytes;
}

// The options' own where a file has it, or is of another form.
std::string column_of_text(const fs::path& file, const DatasetOptions& options) {
  const std::string& wanted = options.text.column;
  if (options.format != Format::automatic || file.extension() == ".wtok" || is_text_file(file))
    return wanted;
  refuse_other_formats(file);
  const std::vector<std::string> keys = first_keys(file, options);
  const auto has = [&](std::string_view key) { return std::ranges::find(keys, key) != keys.end(); };
  if ((has("instruction") && has("output")) || has(wanted) || !conversion_hint(file, keys).empty())
    return wanted;
  const auto bytes = text_columns(file, options, keys);
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& one) { return one.second; });
  return most == bytes.end() || most->second == 0 ? wanted : most->first;
}

}  // namespace

std::uint32_t Survey::length_of_share(double share) const {
  const auto wanted = static_cast<std::size_t>(std::ceil(share * double(lengths.size()) - 1e-9));
  return lengths[std::clamp<std::size_t>(wanted, 1, lengths.size()) - 1];
}

std::uint64_t Survey::num_longer_than(std::uint64_t length) const {
  return static_cast<std::uint64_t>(lengths.end() - std::ranges::upper_bound(lengths, length));
}

Survey survey_files(const DatasetOptions& options, const tokenizer::Tokenizer& tokenizer) {
  const std::vector<fs::path> files = expand_files(options.files);
  DatasetOptions mine = options;
  mine.bad_lines.on_bad_line = OnBadLine::skip;
  mine.text.column = column_of_text(files.front(), options);
  mine.max_length = 1;  // blocks of one token: the size of text is counted in them
  const AboutRows size = look_at_files(mine, &tokenizer);
  Surveyor surveyor(mine, tokenizer);
  for (const fs::path& file : files) surveyor.look_at(file);
  Survey survey = surveyor.finish();
  survey.about_size = survey.format == Format::tokens ? survey.num_rows : size;
  const bool documents = survey.format == Format::text && !is_text_file(files.front());
  if (documents) survey.text_column = mine.text.column;
  return survey;
}

}  // namespace wmtp::data
