// The embedded corpus: code-like problems with right and wrong solutions, and a byte-level BPE
// tokenizer trained on it, written as files a user could have made. Nothing is downloaded.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace wmtp::data {

struct DemoRow {
  std::string instruction, input, output, task_id;
  bool is_correct = true;
  int difficulty = 1;  // number of steps of the problem, 1..5
};

// `num_rows` rows, four to a problem (two right, two wrong). Depends on (seed, first_problem,
// num_rows) alone. Right solutions do every step named in the instruction and return the result;
// wrong ones return the argument, or take one step with an operator that no right one has (`/`,
// `|`) or, one in 16, with another operator or constant than the instruction names.
std::vector<DemoRow> demo_rows(std::uint64_t seed, std::uint64_t first_problem,
                               std::size_t num_rows);
std::string to_json_line(const DemoRow& row);

struct DemoFiles {
  std::filesystem::path train, validation, text, tokenizer;
  std::size_t num_train_rows = 0, num_validation_rows = 0, vocab_size = 0;
};

// Writes train.jsonl, validation.jsonl (a tenth of the rows, other problems), text.txt,
// tokenizer.json and tokenizer_config.json into `folder`, which is created. The same arguments give
// the same bytes.
DemoFiles write_demo_corpus(const std::filesystem::path& folder, std::uint64_t seed,
                            std::size_t num_rows);

// A `tokenizer.json` of at most `vocab_size` ids (256 bytes, 5 special tokens, merges learned on
// `text`). REQUIRES vocab_size >= 261.
std::string train_demo_tokenizer(const std::string& text, std::size_t vocab_size);
std::string demo_tokenizer_config();

}  // namespace wmtp::data
