#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "wmtp/cli/init/proposal.h"
#include "wmtp/core/error.h"

namespace wmtp::cli {
namespace {

using config::CommentedKey;
using config::Stage;
using data::Format;
using data::Survey;

constexpr std::int64_t kLengthStep = 64, kUsualBlock = 2048, kFewBlocks = 100;
constexpr double kMostBad = 0.05;  // share of lines: above it the file wants mending
constexpr std::size_t kNamedColumns = 8;

bool reads_rewards(Stage stage) {
  return stage == Stage::critic || stage == Stage::verifiable;
}

std::string count_of(std::uint64_t number, std::string_view thing) {
  return fmt::format("{} {}{}", number, thing, number == 1 ? "" : "s");
}

// "812 rows", "the first 12345 rows".
std::string looked_at(const Survey& survey, std::uint64_t number) {
  const bool all = survey.whole && number == survey.num_rows;
  return (all ? "" : "the first ") + count_of(number, "row");
}

OrderedJson one_or_list(const std::vector<std::string>& files) {
  return files.size() == 1 ? OrderedJson(files.front()) : OrderedJson(files);
}

std::string ignored_columns(const Survey& survey) {
  std::vector<std::string> names;
  for (const auto& [name, number] : survey.ignored_keys)
    if (names.size() < kNamedColumns)
      names.push_back(fmt::format("\"{}\" ({})", name, count_of(number, "row")));
  if (names.empty()) return "";
  return fmt::format("; nothing reads {}{}", fmt::join(names, ", "),
                     survey.ignored_keys.size() > names.size() ? " and others" : "");
}

std::string format_fact(const Survey& survey) {
  if (survey.format == Format::tokens) return "the file is called .wtok.";
  if (survey.format == Format::instruct)
    return "the rows have \"instruction\" and \"output\"" + ignored_columns(survey) + ".";
  return survey.text_column.empty() ? "the file is called .txt."
                                    : "the rows have no \"instruction\" and \"output\".";
}

std::string template_fact(Format format, config::PromptTemplate chosen) {
  if (format == Format::text) return "text has no prompt.";
  if (format == Format::tokens) return "the prompts are tokens already.";
  return chosen == config::PromptTemplate::chatml ? "the tokenizer has <|im_start|>."
                                                  : "the tokenizer has no <|im_start|>.";
}

std::int64_t round_up(std::int64_t length) {
  return (length + kLengthStep - 1) / kLengthStep * kLengthStep;
}

// Text is cut into blocks: as long as is usual, shorter where few would be left.
LengthChoice block_length(const Survey& survey, std::int64_t positions) {
  const std::int64_t tokens = static_cast<std::int64_t>(survey.about_size.value_or(0));
  std::int64_t length = std::min(kUsualBlock, positions);
  while (tokens > 0 && length > kLengthStep && tokens / length < kFewBlocks)
    length = std::max(kLengthStep, length / 2 / kLengthStep * kLengthStep);
  std::string fact = "text is cut into blocks of this length";
  if (survey.about_size)
    fact += fmt::format(": about {} blocks of about {} tokens",
                        std::max<std::int64_t>(1, tokens / length), tokens);
  return {length, fact + fmt::format("; the model has {} positions.", positions)};
}

std::string class_fact(const Survey& survey, const std::string& rows) {
  if (survey.num_rewards == 0) return fmt::format("no is_correct in {}.", rows);
  if (survey.num_rewards < survey.num_rows)
    return fmt::format("{} of {} have is_correct, all would have to.", survey.num_rewards, rows);
  return fmt::format("{} correct and {} incorrect in {}.", survey.num_correct,
                     survey.num_incorrect(), rows);
}

// What can be drawn by label, or why nothing is.
void add_label_keys(const InitInputs& inputs, std::vector<CommentedKey>& keys) {
  const Survey& survey = inputs.survey;
  if (survey.format != Format::instruct) return;
  const std::string rows = looked_at(survey, survey.num_rows);
  if (uses_pairs(inputs)) {
    keys.push_back({"data_sampling.use_pairwise", true,
                    fmt::format("{} of a correct and an incorrect row of one problem in {}.",
                                count_of(survey.num_pairs, "pair"), rows)});
    return;
  }
  const std::optional<double> ratio = drawn_ratio(inputs);
  keys.push_back({"data_sampling.balance_correct", ratio.has_value(), class_fact(survey, rows)});
  if (ratio)
    keys.push_back({"data_sampling.correct_ratio", *ratio,
                    reads_rewards(inputs.stage)
                        ? "values are learned from both classes."
                        : "correct rows only; this stage would learn incorrect ones like others."});
}

void add_bad_line_keys(const Survey& survey, std::vector<CommentedKey>& keys) {
  if (survey.num_bad == 0) return;
  const auto lines = static_cast<double>(survey.num_bad + survey.num_rows);
  const double share = static_cast<double>(survey.num_bad) / lines;
  keys.push_back({"dataset.on_bad_line", "skip",
                  fmt::format("{} beside {}, the first: {}", count_of(survey.num_bad, "bad line"),
                              looked_at(survey, survey.num_rows), survey.first_bad)});
  keys.push_back({"dataset.max_bad_fraction", std::max(0.001, std::ceil(2000 * share) / 1000),
                  "twice what was found."});
}

void refuse_bad_lines(const Survey& survey) {
  const std::uint64_t lines = survey.num_bad + survey.num_rows;
  if (static_cast<double>(survey.num_bad) <= kMostBad * static_cast<double>(lines)) return;
  throw Error(
      ErrorKind::data, "init",
      fmt::format("{} of {} lines are bad, the first: {}", survey.num_bad, lines, survey.first_bad),
      "mend or remove them: a run passes over few");
}

}  // namespace

bool uses_pairs(const InitInputs& inputs) {
  return inputs.stage == Stage::critic && inputs.survey.format == Format::instruct &&
         inputs.survey.num_pairs > 0;
}

std::optional<double> drawn_ratio(const InitInputs& inputs) {
  const Survey& survey = inputs.survey;
  if (survey.format != Format::instruct || uses_pairs(inputs)) return std::nullopt;
  if (reads_rewards(inputs.stage)) return 0.5;
  const bool both = survey.num_correct > 0 && survey.num_incorrect() > 0;
  return both && survey.num_rewards == survey.num_rows ? std::optional(1.0) : std::nullopt;
}

void require_suitable_data(const InitInputs& inputs) {
  const Survey& survey = inputs.survey;
  refuse_bad_lines(survey);
  if (!reads_rewards(inputs.stage)) return;
  const std::string stage = fmt::format("stage {}", config::name_of(inputs.stage));
  constexpr const char* kRows =
      "it needs rows with \"instruction\", \"output\" and \"is_correct\" (true, false or 0 to 1)";
  if (survey.format != Format::instruct)
    throw Error(
        ErrorKind::config, "init",
        fmt::format("{} learns from rewards, and {} is {}, which has none", stage,
                    inputs.train.front(), survey.format == Format::text ? "text" : "a token cache"),
        fmt::format("{}; stages baseline and rho1 take what this is", kRows));
  if (survey.num_rewards < survey.num_rows)
    throw Error(ErrorKind::data, "init",
                fmt::format("{} of {} in {} have no is_correct, which {} reads",
                            survey.num_rows - survey.num_rewards,
                            looked_at(survey, survey.num_rows), inputs.train.front(), stage),
                fmt::format("{}; stages baseline and rho1 do without", kRows));
  if (survey.whole && (survey.num_correct == 0 || survey.num_incorrect() == 0))
    throw Error(ErrorKind::data, "init",
                fmt::format("all {} in {} are {}: {} learns to tell correct from incorrect ones",
                            count_of(survey.num_rows, "row"), inputs.train.front(),
                            survey.num_correct > 0 ? "correct" : "incorrect", stage),
                "add rows of the other class");
}

config::PromptTemplate proposed_template(Format format, bool has_chat_tokens) {
  if (format != Format::instruct) return config::PromptTemplate::raw;
  return has_chat_tokens ? config::PromptTemplate::chatml : config::PromptTemplate::alpaca;
}

LengthChoice proposed_length(const Survey& survey, std::int64_t positions) {
  if (survey.format == Format::text || survey.lengths.empty())
    return block_length(survey, positions);
  const std::int64_t common = survey.length_of_share(0.99);
  const std::int64_t length = std::min(round_up(common), positions);
  const std::uint64_t cut = survey.num_longer_than(static_cast<std::uint64_t>(length));
  const std::uint64_t number = survey.lengths.size();
  std::string fact =
      fmt::format("99 % of {} have at most {} tokens", looked_at(survey, number), common);
  if (length < common) fact += fmt::format(", the model has {} positions", positions);
  return {length,
          fact + fmt::format("; {} would be cut.", cut == 0 ? "none" : count_of(cut, "row"))};
}

std::vector<CommentedKey> proposed_data_keys(const InitInputs& inputs) {
  const Survey& survey = inputs.survey;
  const LengthChoice length = proposed_length(survey, inputs.model.positions);
  const config::PromptTemplate chosen =
      proposed_template(survey.format, inputs.model.has_chat_tokens);
  std::vector<CommentedKey> keys{
      {"dataset.train", one_or_list(inputs.train), ""},
      {"dataset.format", config::name_of(survey.format), format_fact(survey)},
      {"dataset.max_length", length.max_length, length.fact},
      {"dataset.prompt_template", config::name_of(chosen), template_fact(survey.format, chosen)},
      {"data_sampling.seed", 42, ""},
      {"data_sampling.n_samples", nullptr, ""}};
  if (!inputs.validation.empty())
    keys.push_back({"dataset.validation", one_or_list(inputs.validation), inputs.validation_fact});
  if (survey.format == Format::text && survey.text_column.empty())
    keys.push_back({"dataset.text.document_separator", "file", ""});
  else if (survey.format == Format::text)
    keys.push_back({"dataset.text.column", survey.text_column,
                    survey.text_column == "text" ? "" : "it holds most of the text of the rows."});
  if (survey.num_difficulties > 0)
    keys.push_back({"data_sampling.difficulty_bins", OrderedJson::object(),
                    fmt::format("{} of {} have a difficulty, from {} to {}.",
                                survey.num_difficulties, looked_at(survey, survey.num_rows),
                                survey.min_difficulty, survey.max_difficulty)});
  add_bad_line_keys(survey, keys);
  add_label_keys(inputs, keys);
  return keys;
}

}  // namespace wmtp::cli
