#include "tools/vectors/json_tensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "wmtp/tensor/dtype.h"

namespace wmtp::vectors {
namespace {

[[noreturn]] void refuse(const std::string& fact) {
  throw Error(ErrorKind::data, "vectors", fact);
}

void collect(const Json& json, std::size_t level, const std::vector<std::int64_t>& sizes,
             std::vector<double>& out) {
  if (level == sizes.size()) return out.push_back(number(json));
  if (!json.is_array() || static_cast<std::int64_t>(json.size()) != sizes[level])
    refuse(fmt::format("a list of level {} does not have {} entries", level, sizes[level]));
  for (const Json& entry : json) collect(entry, level + 1, sizes, out);
}

Json nested(const double* values, std::size_t level, c10::IntArrayRef sizes, std::int64_t stride) {
  if (level == sizes.size()) return to_json(*values);
  Json list = Json::array();
  const std::int64_t step = sizes[level] > 0 ? stride / sizes[level] : 0;
  for (std::int64_t i = 0; i < sizes[level]; ++i)
    list.push_back(nested(values + i * step, level + 1, sizes, step));
  return list;
}

}  // namespace

// Quotes the words that JSON does not know, outside of strings.
Json parse_line(const std::string& line) {
  std::string strict;
  bool in_text = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && (i == 0 || line[i - 1] != '\\')) in_text = !in_text;
    std::string_view word;
    for (const std::string_view candidate : {"-Infinity", "Infinity", "NaN"})
      if (!in_text && word.empty() && line.compare(i, candidate.size(), candidate) == 0)
        word = candidate;
    if (word.empty()) {
      strict += line[i];
      continue;
    }
    strict += fmt::format("\"{}\"", word);
    i += word.size() - 1;
  }
  return parse_json(strict, "standard input", {.max_bytes = std::size_t{1} << 28, .max_depth = 16});
}

double number(const Json& json) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (json.is_null() || json == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (json == "Infinity") return infinity;
  if (json == "-Infinity") return -infinity;
  if (json.is_boolean()) return json.get<bool>() ? 1 : 0;
  if (!json.is_number()) refuse(fmt::format("{} is not a number", json.dump()));
  return json.get<double>();
}

double number(const Json& in, const char* name, double otherwise) {
  return in.contains(name) && !in[name].is_null() ? number(in[name]) : otherwise;
}

std::vector<double> numbers(const Json& list) {
  std::vector<double> out;
  for (const Json& entry : list) out.push_back(number(entry));
  return out;
}

std::string text(const Json& in, const char* name, const char* otherwise) {
  return in.contains(name) && !in[name].is_null() ? in[name].get<std::string>() : otherwise;
}

std::size_t choice(const std::string& name, const std::vector<std::string_view>& names) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) refuse(fmt::format("'{}' is no choice here", name));
  return static_cast<std::size_t>(found - names.begin());
}

Tensor tensor(const Json& json) {
  std::vector<std::int64_t> sizes;
  for (const Json* at = &json; at->is_array(); at = &at->front()) {
    sizes.push_back(static_cast<std::int64_t>(at->size()));
    if (at->empty()) break;
  }
  std::vector<double> values;
  collect(json, 0, sizes, values);
  const Tensor out = at::empty(sizes, at::TensorOptions().dtype(kFloat64));
  std::copy(values.begin(), values.end(), out.data_ptr<double>());
  return out;
}

Json to_json(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json to_json(const Tensor& tensor) {
  const Tensor wide = tensor.to(kFloat64).contiguous();
  return nested(wide.data_ptr<double>(), 0, wide.sizes(), wide.numel());
}

Rows rows_of(const Tensor& mask_BT, const Tensor& rewards_B) {
  Rows rows;
  rows.num_rows = mask_BT.size(0), rows.length = mask_BT.dim() > 1 ? mask_BT.size(1) : 0;
  const auto ints = at::TensorOptions().dtype(kInt32);
  kernels::Responses& r = rows.responses;
  r.doc_start_D1 = at::arange(rows.num_rows + 1, ints).mul_(rows.length);
  r.document_N = at::arange(rows.num_rows, ints).repeat_interleave(rows.length);
  r.mask_N = mask_BT.ne(0).to(kernels::kMaskType).contiguous().view({-1});
  r.reward_D = rewards_B;
  return rows;
}

}  // namespace wmtp::vectors
