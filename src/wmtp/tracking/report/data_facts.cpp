#include "wmtp/tracking/report/data_facts.h"

#include <fmt/format.h>

#include <array>

#include "wmtp/tracking/report/findings/measures.h"

namespace wmtp::tracking {
namespace {

struct Fact {
  const char* name;                 // of the JSON form
  const char* title;                // of the table
  std::array<const char*, 2> keys;  // below data.<split>; their sum where there are two
};

constexpr std::array<Fact, 11> kFacts{{
    {"rows", "rows", {"rows", nullptr}},
    {"samples", "samples", {"samples", nullptr}},
    {"tokens", "tokens", {"lengths.tokens", nullptr}},
    {"targets", "targets", {"lengths.targets", nullptr}},
    {"length_p50", "length: half up to", {"lengths.p50", nullptr}},
    {"length_p90", "90 % up to", {"lengths.p90", nullptr}},
    {"length_max", "longest", {"lengths.max", nullptr}},
    {"truncated_rows", "truncated", {"truncated_rows.correct", "truncated_rows.incorrect"}},
    {"bad_lines", "bad lines", {"bad_lines", nullptr}},
    {"correct", "drawn right", {"correct", nullptr}},
    {"incorrect", "drawn wrong", {"incorrect", nullptr}},
}};

std::optional<double> sum_of(const RunData& run, const std::string& split, const Fact& fact) {
  std::optional<double> sum;
  for (const char* key : fact.keys)
    if (key != nullptr)
      if (const auto value = environment_number(run, fmt::format("data.{}.{}", split, key)))
        sum = sum.value_or(0) + *value;
  return sum;
}

std::vector<std::string> told_splits(const RunData& run) {
  std::vector<std::string> splits;
  for (const char* split : {"train", "validation"})
    if (environment_number(run, fmt::format("data.{}.rows", split))) splits.emplace_back(split);
  return splits;
}

}  // namespace

std::vector<std::string> data_header() {
  std::vector<std::string> header{"data"};
  for (const Fact& fact : kFacts) header.emplace_back(fact.title);
  return header;
}

std::vector<std::vector<std::string>> data_cells(const RunData& run) {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& split : told_splits(run)) {
    auto& row = rows.emplace_back(1, split);
    for (const Fact& fact : kFacts) {
      const auto value = sum_of(run, split, fact);
      row.push_back(value ? fmt::format("{:.0f}", *value) : "-");
    }
  }
  return rows;
}

OrderedJson data_json(const RunData& run) {
  OrderedJson out = OrderedJson::object();
  for (const std::string& split : told_splits(run))
    for (const Fact& fact : kFacts)
      if (const auto value = sum_of(run, split, fact))
        out[split][fact.name] = static_cast<std::int64_t>(*value);
  return out;
}

}  // namespace wmtp::tracking
