// What the rows of data files are like, for whoever proposes settings for them: looked at, neither
// indexed nor tokenized as a whole.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/data/first_look.h"
#include "wmtp/data/index/row_schema.h"
#include "wmtp/data/options.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::data {

// Lines are looked at in the first 64 MiB of all files together; lengths are those of the first
// kMaxLengths rows. Nothing is counted of plain text files but about_size.
struct Survey {
  static constexpr std::size_t kMaxLengths = 1000;

  Format format = Format::automatic;  // never automatic
  std::string text_column;            // of text in JSON Lines; else empty
  bool whole = true;                  // every line of every file was looked at
  AboutRows about_size;               // of all files: rows, of text tokens

  std::uint64_t num_rows = 0, num_bad = 0;  // lines looked at; blank ones do not count
  std::string first_bad;                    // "train.jsonl:12:5: ..."; empty: none
  std::uint64_t num_rewards = 0;            // rows with is_correct
  std::uint64_t num_correct = 0;            // of those
  std::uint64_t num_pairs = 0;              // of a correct and an incorrect row of one problem
  std::uint64_t num_difficulties = 0;       // rows with one
  std::int16_t min_difficulty = 0, max_difficulty = 0;
  KeyCounts ignored_keys;  // of instruction rows

  std::vector<std::uint32_t> lengths;  // in tokens, ascending

  std::uint64_t num_incorrect() const { return num_rewards - num_correct; }
  // The smallest length that at least this share of the rows does not exceed. REQUIRES lengths.
  std::uint32_t length_of_share(double share) const;
  std::uint64_t num_longer_than(std::uint64_t length) const;
};

// By the format, template and text options of `options`; an automatic format is told by the files,
// and where JSON Lines hold neither instruction rows nor options.text.column, the column is the one
// that holds most of their text and stands in each. Writes nothing. Errors are those of
// look_at_files, but bad lines are counted.
Survey survey_files(const DatasetOptions& options, const tokenizer::Tokenizer& tokenizer);

}  // namespace wmtp::data
