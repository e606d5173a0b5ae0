// A small instruction corpus on disk and the options to open it.
#pragma once
#include <memory>
#include <string>

#include "data/fake_tokenizer.h"
#include "support/temp_dir.h"
#include "wmtp/data/corpus.h"
#include "wmtp/data/index/row_schema.h"
#include "wmtp/data/plan/dataset.h"

namespace wmtp::data::test {

inline Row row_of(std::string_view instruction, std::string_view input, std::string_view output) {
  Row row;
  row.instruction = instruction, row.input = input, row.output = output;
  return row;
}

struct CorpusFixture {
  wmtp::test::TempDir dir;
  FakeTokenizer tokenizer;
  DatasetOptions options;

  explicit CorpusFixture(int rows = 53) {
    options.cache.num_threads = 1;
    options.max_length = 400;
    add("train.jsonl", rows);
  }

  static std::string row(int i) {
    const int problem = i / 4;
    const bool correct = i % 2 == 0;
    return R"({"instruction": "task )" + std::to_string(problem) + R"(", "output": ")" +
           std::string(static_cast<std::size_t>(1 + (i * 37) % 90),
                       static_cast<char>('a' + i % 26)) +
           R"(", "task_id": "p)" + std::to_string(problem) +
           (correct ? "_correct_" : "_incorrect_") + std::to_string(i) + R"(", "is_correct": )" +
           (correct ? "true" : "false") + R"(, "metadata": {"difficulty": )" +
           std::to_string(problem % 5) + "}}";
  }

  void add(const std::string& name, int rows) {
    std::string text;
    for (int i = 0; i < rows; ++i) text += row(i) + "\n";
    add_text(name, text);
  }
  void add_text(const std::string& name, const std::string& text) {
    wmtp::test::write_file(dir / name, text);
    options.files.push_back((dir / name).string());
  }

  std::shared_ptr<const Corpus> corpus(bool token_counts = false) const {
    return std::make_shared<Corpus>(options, tokenizer, token_counts);
  }
  std::shared_ptr<const Dataset> dataset(const SamplingOptions& sampling = {},
                                         Split split = Split::train) const {
    return std::make_shared<Dataset>(corpus(sampling.use_length_balanced), sampling, split);
  }
};

}  // namespace wmtp::data::test
