#include "wmtp/models/scoring/score_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>

#include "wmtp/core/error.h"

namespace wmtp::models {
namespace {

// A scored row as it is sent to rank 0: this header, then the line.
struct LineHeader {
  std::uint64_t line_bytes = 0, num_tokens = 0;
  double nll_sum = 0;
};

void append_number(std::string& line, const std::optional<float>& number) {
  if (number)
    fmt::format_to(std::back_inserter(line), "{}", *number);
  else
    line += "null";
}

template <class Numbers>
void append_numbers(std::string& line, const Numbers& numbers) {
  line += '[';
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) line += ',';
    append_number(line, numbers[i]);
  }
  line += ']';
}

void append_heads(std::string& line, const ByTarget& by_target) {
  line += '[';
  for (std::size_t head = 0; head < by_target.size(); ++head) {
    if (head > 0) line += ',';
    append_numbers(line, by_target[head]);
  }
  line += ']';
}

std::string line_of(const ScoredRow& row) {
  std::string line = fmt::format(R"({{"type":"score","row":{})", row.row);
  if (row.part > 0) line += fmt::format(R"(,"part":{})", row.part);
  if (row.place)
    line += fmt::format(R"(,"micro_batch":{},"rank":{})", row.place->micro_batch, row.place->rank);
  line += fmt::format(R"(,"ids":[{}],"nll":)", fmt::join(row.ids, ","));
  append_heads(line, row.nll);
  if (row.values) {
    line += R"(,"value":)";
    append_numbers(line, *row.values);
  }
  if (row.weights) {
    line += R"(,"weight":)";
    append_heads(line, *row.weights);
  }
  line += "}\n";
  return line;
}

[[noreturn]] void refuse_number(const ScoredRow& row, const std::string& what, float number) {
  throw Error(ErrorKind::numeric, "score", fmt::format("row {}: {} of {}", row.row, what, number),
              "are the weights finite, and does the compute dtype hold their range?");
}

void require_finite(const ScoredRow& row) {
  const auto check = [&row](const ByTarget& by_target, std::string_view what) {
    for (std::size_t head = 0; head < by_target.size(); ++head)
      for (const auto& number : by_target[head])
        if (number && !std::isfinite(*number))
          refuse_number(row, fmt::format("head {} has a {}", head + 1, what), *number);
  };
  check(row.nll, "loss");
  if (row.weights) check(*row.weights, "weight");
  if (!row.values) return;
  for (const float value : *row.values)
    if (!std::isfinite(value)) refuse_number(row, "a value", value);
}

}  // namespace

void append_line(std::string& message, const ScoredRow& row) {
  require_finite(row);
  const std::string line = line_of(row);
  LineHeader header{line.size()};
  if (!row.nll.empty())
    for (const auto& nll : row.nll.front())
      if (nll) header.nll_sum += static_cast<double>(*nll), ++header.num_tokens;
  message.append(reinterpret_cast<const char*>(&header), sizeof header);
  message += line;
}

void put_out(std::span<const std::string> messages, ScoreSummary& summary, const WriteLine& write) {
  for (std::string_view rest : messages)
    while (!rest.empty()) {
      LineHeader header;
      std::memcpy(&header, rest.data(), sizeof header);
      write(rest.substr(sizeof header, header.line_bytes));
      rest.remove_prefix(sizeof header + header.line_bytes);
      summary.num_tokens += header.num_tokens;
      summary.nll_sum += header.nll_sum;
    }
}

}  // namespace wmtp::models
