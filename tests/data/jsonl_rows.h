// Rows of JSONL as texts, and what reads them: the parser of one line, the index of a file.
#pragma once
#include <optional>
#include <string>

#include "support/temp_dir.h"
#include "wmtp/data/index/index_builder.h"
#include "wmtp/data/index/row_schema.h"

namespace wmtp::data::test {

inline constexpr const char* kGood = R"({"instruction": "add", "input": "1 2", "output": "3"})";

inline std::string row_text(int i) {
  const bool correct = i % 3 != 0;
  return R"({"instruction": "solve )" + std::to_string(i) + R"(", "output": "def f():\n\treturn )" +
         std::to_string(i) + R"( # \u00e9", "task_id": "prob)" + std::to_string(i % 7) +
         (correct ? "_correct_" : "_incorrect_") + std::to_string(i) + R"(", "is_correct": )" +
         (correct ? "true" : "false") + R"(, "metadata": {"difficulty": )" +
         std::to_string(i % 7 + 1) + R"(, "source": "x"}})";
}

inline IndexReport index_text(const wmtp::test::TempDir& dir, const std::string& text,
                              BadLinePolicy policy = {}, int threads = 1) {
  wmtp::test::write_file(dir / "train.jsonl", text);
  IndexRequest request;
  request.file = dir / "train.jsonl";
  request.index = dir / "train.widx";
  request.bad_lines = policy;
  request.num_threads = threads;
  return build_index(request);
}

inline std::optional<BadLine> parse(std::string_view text, Row& row) {
  static RowParser parser;
  static std::string padded;
  padded = std::string(text) + std::string(64, ' ');
  return parser.parse({std::string_view(padded).substr(0, text.size()), 0, padded.size(), true},
                      row);
}

}  // namespace wmtp::data::test
