#include "wmtp/data/index/metadata_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "wmtp/core/json.h"
#include "wmtp/data/index/line_chunks.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::data {
namespace {

struct ProblemRows {
  std::optional<std::int16_t> difficulty;
  std::vector<std::uint32_t> correct, incorrect;
};

bool is_row(const RowIndex& index, std::uint32_t row) {
  return !(index.flags()[row] & (kRowBlank | kRowBad));
}

std::vector<ProblemRows> group_by_problem(const RowIndex& index) {
  std::vector<ProblemRows> problems(index.num_problems());
  for (std::uint32_t row = 0; row < index.num_rows(); ++row) {
    const std::uint32_t number = index.problem()[row];
    if (number == kNoProblem || !is_row(index, row)) continue;
    ProblemRows& problem = problems[number];
    if (!problem.difficulty && index.difficulty()[row] != kNoDifficulty)
      problem.difficulty = index.difficulty()[row];
    (index.flags()[row] & kRowCorrect ? problem.correct : problem.incorrect).push_back(row);
  }
  return problems;
}

std::string json_text(std::string_view text) {
  return Json(text).dump();
}

std::string list_of(const std::vector<std::uint32_t>& rows, const RowIndex* lengths) {
  std::string text = "[";
  for (std::uint32_t row : rows)
    text += fmt::format("{}{}", text.size() > 1 ? ", " : "",
                        lengths ? lengths->output_tokens()[row] : row);
  return text + "]";
}

// The `metadata` array: one entry per physical line, null for blank and bad ones.
void write_rows(storage::AtomicFile& file, const RowIndex& index) {
  file.write("{\n\"metadata\": [");
  for (std::uint32_t row = 0; row < index.num_rows(); ++row) {
    file.write(row == 0 ? "\n" : ",\n");
    if (!is_row(index, row)) {
      file.write("null");
      continue;
    }
    const std::uint8_t flags = index.flags()[row];
    std::string reward = "null";
    if (flags & kRowHasReward) {
      const float value = index.reward()[row];
      reward = value == 1 ? "true" : value == 0 ? "false" : fmt::format("{}", value);
    }
    const std::int16_t difficulty = index.difficulty()[row];
    const std::uint32_t problem = index.problem()[row];
    file.write(
        fmt::format("{{\"is_correct\": {}, \"difficulty\": {}, \"problem_id\": {}}}", reward,
                    difficulty == kNoDifficulty ? "null" : std::to_string(difficulty),
                    problem == kNoProblem ? "null" : json_text(index.problem_name(problem))));
  }
  file.write("\n],\n");
}

void write_problems(storage::AtomicFile& file, const RowIndex& index,
                    const std::vector<ProblemRows>& problems) {
  file.write("\"problem_index_map\": {");
  const RowIndex* lengths = index.has_token_counts() ? &index : nullptr;
  const char* separator = "\n";
  for (std::uint32_t i = 0; i < problems.size(); ++i) {
    const ProblemRows& problem = problems[i];
    if (problem.correct.empty() && problem.incorrect.empty()) continue;
    file.write(fmt::format(
        "{}{}: {{\"difficulty\": {}, \"correct_indices\": {}, \"incorrect_indices\": {}", separator,
        json_text(index.problem_name(i)),
        problem.difficulty ? std::to_string(*problem.difficulty) : "null",
        list_of(problem.correct, nullptr), list_of(problem.incorrect, nullptr)));
    if (lengths)
      file.write(fmt::format(", \"correct_token_lengths\": {}, \"incorrect_token_lengths\": {}",
                             list_of(problem.correct, lengths),
                             list_of(problem.incorrect, lengths)));
    file.write("}");
    separator = ",\n";
  }
  file.write("\n},\n");
}

OrderedJson statistics(const RowIndex& index, const std::vector<ProblemRows>& problems) {
  std::uint64_t correct = 0, incorrect = 0, valid = 0, pairs = 0, used = 0;
  bool has_reward = false;
  std::map<std::int16_t, std::uint64_t> difficulties;
  for (std::uint32_t row = 0; row < index.num_rows(); ++row) {
    if (!is_row(index, row)) continue;
    ++(index.flags()[row] & kRowCorrect ? correct : incorrect);
    has_reward = has_reward || (index.flags()[row] & kRowHasReward);
    if (index.difficulty()[row] != kNoDifficulty) ++difficulties[index.difficulty()[row]];
  }
  for (const ProblemRows& problem : problems) {
    used += !problem.correct.empty() || !problem.incorrect.empty();
    valid += !problem.correct.empty() && !problem.incorrect.empty();
    pairs += std::min(problem.correct.size(), problem.incorrect.size());
  }
  OrderedJson distribution = OrderedJson::object();
  for (const auto& [difficulty, count] : difficulties)
    distribution[std::to_string(difficulty)] = count;
  return {{"total", index.num_rows()},
          {"correct", correct},
          {"incorrect", incorrect},
          {"difficulty_dist", distribution},
          {"n_problems", used},
          {"n_valid_problems", valid},
          {"total_possible_pairs", pairs},
          {"has_is_correct", has_reward},
          {"has_difficulty", !difficulties.empty()},
          {"has_token_lengths", index.has_token_counts()}};
}

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view fact) {
  throw Error(ErrorKind::data, "data", fmt::format("{}: {}", path.string(), fact),
              "make one with: wmtp data index --metadata-json FILE");
}

MetadataRow read_row(const Json& entry, const std::filesystem::path& path, std::size_t row) {
  MetadataRow out;
  if (entry.is_null()) return out;
  if (!entry.is_object()) refuse(path, fmt::format("metadata[{}] is not an object", row));
  if (const auto it = entry.find("is_correct"); it != entry.end() && !it->is_null()) {
    if (!it->is_boolean() && !it->is_number())
      refuse(path, fmt::format("metadata[{}].is_correct is no boolean or number", row));
    const double reward = it->is_boolean() ? (it->get<bool>() ? 1.0 : 0.0) : it->get<double>();
    if (!(reward >= 0 && reward <= 1))
      refuse(path, fmt::format("metadata[{}].is_correct is outside 0..1", row));
    out.reward = static_cast<float>(reward);
  }
  if (const auto it = entry.find("difficulty"); it != entry.end() && !it->is_null()) {
    if (!it->is_number_integer() || it->get<std::int64_t>() < -32767 ||
        it->get<std::int64_t>() > 32767)
      refuse(path, fmt::format("metadata[{}].difficulty is no integer in -32767..32767", row));
    out.difficulty = static_cast<std::int16_t>(it->get<std::int64_t>());
  }
  if (const auto it = entry.find("problem_id"); it != entry.end() && !it->is_null()) {
    if (!it->is_string()) refuse(path, fmt::format("metadata[{}].problem_id is no string", row));
    out.problem = it->get<std::string>();
  }
  return out;
}

// One class of one problem: row ids, and their token lengths where given.
void read_class(ForeignMetadata& out, const std::filesystem::path& path, const std::string& name,
                const Json& problem, const std::string& which) {
  const auto indices = problem.find(which + "_indices");
  if (indices == problem.end()) return;
  const auto lengths = problem.find(which + "_token_lengths");
  if (!indices->is_array())
    refuse(path, fmt::format("problem \"{}\": {}_indices is no list", name, which));
  const bool has_lengths = lengths != problem.end();
  if (has_lengths && (!lengths->is_array() || lengths->size() != indices->size()))
    refuse(path,
           fmt::format("problem \"{}\": {}_token_lengths does not match the indices", name, which));
  for (std::size_t i = 0; i < indices->size(); ++i) {
    const Json& index = (*indices)[i];
    if (!index.is_number_unsigned() || index.get<std::uint64_t>() >= out.total)
      refuse(path, fmt::format("problem \"{}\": index {} is out of range (total {})", name,
                               index.dump(), out.total));
    MetadataRow& row = out.rows[index.get<std::uint64_t>()];
    row.problem = name;
    if (!row.reward) row.reward = which == "correct" ? 1.0f : 0.0f;
    if (!has_lengths) continue;
    if (!(*lengths)[i].is_number_unsigned())
      refuse(path, fmt::format("problem \"{}\": a token length is no integer", name));
    row.output_tokens = static_cast<std::uint32_t>((*lengths)[i].get<std::uint64_t>());
    out.has_token_lengths = true;
  }
}

}  // namespace

void write_metadata_json(const std::filesystem::path& path, const RowIndex& index,
                         const std::string& source_file) {
  const std::vector<ProblemRows> problems = group_by_problem(index);
  storage::AtomicFile file(path);
  write_rows(file, index);
  write_problems(file, index, problems);
  file.write(fmt::format("\"stats\": {},\n\"source_file\": {}\n}}\n",
                         statistics(index, problems).dump(), json_text(source_file)));
  file.commit();
}

ForeignMetadata read_metadata_json(const std::filesystem::path& path) {
  const Json root = read_json(path, {.max_bytes = std::size_t{4} << 30, .max_depth = 16});
  ForeignMetadata out;
  out.fingerprint = fingerprint_file(path);
  const auto stats = root.is_object() ? root.find("stats") : root.end();
  if (!root.is_object() || stats == root.end() || !stats->is_object() ||
      !stats->contains("total") || !(*stats)["total"].is_number_unsigned())
    refuse(path, "stats.total is missing");
  out.total = (*stats)["total"].get<std::uint64_t>();
  if (out.total > (std::uint64_t{1} << 32)) refuse(path, "stats.total is beyond 2^32");
  out.rows.resize(out.total);
  if (const auto rows = root.find("metadata"); rows != root.end()) {
    if (!rows->is_array() || rows->size() != out.total)
      refuse(path,
             fmt::format("metadata has {} entries, stats.total is {}", rows->size(), out.total));
    for (std::size_t i = 0; i < rows->size(); ++i) out.rows[i] = read_row((*rows)[i], path, i);
  }
  if (const auto problems = root.find("problem_index_map"); problems != root.end()) {
    if (!problems->is_object()) refuse(path, "problem_index_map is no object");
    for (const auto& [name, problem] : problems->items()) {
      if (!problem.is_object()) refuse(path, fmt::format("problem \"{}\" is no object", name));
      read_class(out, path, name, problem, "correct");
      read_class(out, path, name, problem, "incorrect");
    }
  }
  return out;
}

}  // namespace wmtp::data
