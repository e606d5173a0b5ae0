#include "wmtp/models/trainable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace wmtp::models {
namespace {

std::string with_separators(std::int64_t number) {
  const std::string digits = fmt::format("{}", number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

// "model.layers.3.mlp" to "model.layers.*.mlp".
std::string any_block(const std::string& name) {
  for (const std::string_view group : {"model.layers.", "model.extra_heads."}) {
    if (!name.starts_with(group)) continue;
    const auto dot = name.find('.', group.size());
    return fmt::format("{}*{}", group, name.substr(dot));
  }
  return name;
}

}  // namespace

std::string TrainableParameters::summary() const {
  return fmt::format("trainable: {} of {} parameters ({:.4f} %)", with_separators(trained),
                     with_separators(total), 100 * share());
}

std::vector<std::string> TrainableParameters::lines() const {
  struct Line {
    std::string text;
    int count;
  };
  std::vector<Line> found;
  for (const layout::ParamSpec& param : params) {
    std::string text = fmt::format("{} [{}]", any_block(param.name), fmt::join(param.shape, ", "));
    const auto at = std::ranges::find(found, text, &Line::text);
    if (at == found.end())
      found.push_back({std::move(text), 1});
    else
      ++at->count;
  }
  std::vector<std::string> lines;
  for (const Line& line : found)
    lines.push_back(line.count == 1 ? line.text : fmt::format("{} x {}", line.text, line.count));
  return lines;
}

OrderedJson TrainableParameters::to_json() const {
  return {{"trained", trained}, {"total", total}, {"share", share()}, {"parameters", lines()}};
}

TrainableParameters trainable_parameters(const std::vector<layout::UnitSpec>& units) {
  TrainableParameters result;
  for (const layout::UnitSpec& unit : units)
    for (const layout::ParamSpec& param : unit.params) {
      result.total += param.numel();
      if (!param.trained) continue;
      result.trained += param.numel();
      result.params.push_back(param);
    }
  return result;
}

}  // namespace wmtp::models
