#include "wmtp/data/demo_corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "wmtp/core/json.h"
#include "wmtp/core/rng.h"
#include "wmtp/storage/atomic_file.h"
#include "wmtp/tokenizer/prompt_template.h"

namespace wmtp::data {
namespace {

struct Operator {
  const char *verb, *symbol;
};
constexpr std::array<Operator, 4> kOperators{{{"add {}", "+"},
                                              {"subtract {}", "-"},
                                              {"multiply by {}", "*"},
                                              {"take the remainder of {}", "%"}}};
// Operators that no instruction asks for: index 4 and on of a wrong step.
constexpr std::array<const char*, 2> kWrongSymbols{"/", "|"};
constexpr std::array<const char*, 6> kNames{"x", "n", "a", "value", "k", "num"};
constexpr std::array<const char*, 6> kFunctions{"solve", "compute", "apply",
                                                "step",  "change",  "run"};
constexpr std::size_t kVocabSize = 512;

struct Step {
  std::size_t op = 0;
  std::uint64_t number = 0;
};

struct Exercise {
  std::string function;
  std::vector<Step> steps;
};

Exercise make_exercise(std::uint64_t seed, std::uint64_t number) {
  RngStream rng(seed, fmt::format("demo/problem/{}", number));
  Exercise exercise;
  exercise.function = kFunctions[rng.below(kFunctions.size())];
  const std::uint64_t num_steps = 1 + rng.below(5);
  for (std::uint64_t i = 0; i < num_steps; ++i)
    exercise.steps.push_back({rng.below(kOperators.size()), 2 + rng.below(8)});
  return exercise;
}

std::string instruction_of(const Exercise& exercise) {
  std::string text =
      fmt::format("Write a function {} that takes one number. First ", exercise.function);
  for (std::size_t i = 0; i < exercise.steps.size(); ++i)
    text +=
        (i == 0 ? "" : ", then ") +
        fmt::format(fmt::runtime(kOperators[exercise.steps[i].op].verb), exercise.steps[i].number);
  return text + ".";
}

const char* symbol_of(std::size_t op) {
  return op < kOperators.size() ? kOperators[op].symbol : kWrongSymbols[op - kOperators.size()];
}

std::string solution(const Exercise& exercise, const std::string& name, bool returns_argument) {
  std::string text = fmt::format("def {}({}):\n    y = {}\n", exercise.function, name, name);
  for (const Step& step : exercise.steps)
    text += fmt::format("    y = y {} {}\n", symbol_of(step.op), step.number);
  return text + fmt::format("    return {}\n", returns_argument ? name : "y");
}

// Most wrong solutions show it in one token: of 16, 7 return the argument and 8 take a symbol that
// no right solution has. The last one misses an operator or a constant of the instruction: telling
// that one takes reading the problem, which is more than the smallest models learn in a minute.
std::string wrong_solution(const Exercise& exercise, const std::string& name, RngStream& rng) {
  const std::uint64_t kind = rng.below(16);
  if (kind < 7) return solution(exercise, name, true);
  Exercise wrong = exercise;
  Step& step = wrong.steps[rng.below(wrong.steps.size())];
  const std::uint64_t drawn = rng.below(kOperators.size() - 1);
  if (kind < 15)
    step.op = kOperators.size() + drawn % kWrongSymbols.size();
  else if (drawn == 0)
    step.number = 2 + (step.number - 2 + 1 + rng.below(7)) % 8;
  else
    step.op = (step.op + drawn) % kOperators.size();
  return solution(wrong, name, false);
}

std::string prompt_of(const DemoRow& row) {
  return tokenizer::render_prompt(tokenizer::PromptTemplate::alpaca, row.instruction, row.input)
      .text;
}

}  // namespace

std::vector<DemoRow> demo_rows(std::uint64_t seed, std::uint64_t first_exercise,
                               std::size_t num_rows) {
  std::vector<DemoRow> rows;
  for (std::uint64_t number = first_exercise; rows.size() < num_rows; ++number) {
    const Exercise exercise = make_exercise(seed, number);
    RngStream rng(seed, fmt::format("demo/rows/{}", number));
    for (int i = 0; i < 4 && rows.size() < num_rows; ++i) {
      const std::string name = kNames[rng.below(kNames.size())];
      DemoRow row;
      row.is_correct = i % 2 == 0;
      row.instruction = instruction_of(exercise);
      row.output =
          row.is_correct ? solution(exercise, name, false) : wrong_solution(exercise, name, rng);
      row.task_id =
          fmt::format("demo{:05}_{}_{}", number, row.is_correct ? "correct" : "incorrect", i / 2);
      row.difficulty = static_cast<int>(exercise.steps.size());
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string to_json_line(const DemoRow& row) {
  const OrderedJson json{
      {"instruction", row.instruction}, {"input", row.input},
      {"output", row.output},           {"task_id", row.task_id},
      {"is_correct", row.is_correct},   {"metadata", {{"difficulty", row.difficulty}}}};
  return json.dump() + "\n";
}

DemoFiles write_demo_corpus(const std::filesystem::path& folder, std::uint64_t seed,
                            std::size_t num_rows) {
  std::filesystem::create_directories(folder);
  DemoFiles files{folder / "train.jsonl",
                  folder / "validation.jsonl",
                  folder / "text.txt",
                  folder / "tokenizer.json",
                  num_rows,
                  std::max<std::size_t>(8, num_rows / 10),
                  kVocabSize};
  const std::vector<DemoRow> train = demo_rows(seed, 0, files.num_train_rows);
  constexpr std::uint64_t kFirstValidationExercise = 50'000;
  const std::vector<DemoRow> validation =
      demo_rows(seed, kFirstValidationExercise, files.num_validation_rows);
  std::string train_text, validation_text, prose, learned;
  for (const DemoRow& row : train) {
    train_text += to_json_line(row);
    if (learned.size() < (std::size_t{1} << 20)) learned += prompt_of(row) + row.output;
    if (row.is_correct) prose += "# " + row.instruction + "\n" + row.output + "\n";
  }
  for (const DemoRow& row : validation) validation_text += to_json_line(row);
  storage::write_file_atomically(files.train, train_text, storage::AtomicFile::kPublic);
  storage::write_file_atomically(files.validation, validation_text, storage::AtomicFile::kPublic);
  storage::write_file_atomically(files.text, prose, storage::AtomicFile::kPublic);
  storage::write_file_atomically(files.tokenizer, train_demo_tokenizer(learned, kVocabSize),
                                 storage::AtomicFile::kPublic);
  storage::write_file_atomically(folder / "tokenizer_config.json", demo_tokenizer_config(),
                                 storage::AtomicFile::kPublic);
  return files;
}

}  // namespace wmtp::data
