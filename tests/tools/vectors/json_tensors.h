// Nested JSON lists as fp64 tensors and back. NaN, Infinity and -Infinity are read as Python's json
// writes them; null reads as NaN and is what NaN is written as.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/core/json.h"
#include "wmtp/kernels/responses.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::vectors {

// One line of input; bare NaN and Infinity allowed.
Json parse_line(const std::string& line);

double number(const Json& json);
// A named number of `in`, or `otherwise` where it is not given.
double number(const Json& in, const char* name, double otherwise);
std::vector<double> numbers(const Json& list);
std::string text(const Json& in, const char* name, const char* otherwise);
// One of `names`, as its place in them; Error data for others.
std::size_t choice(const std::string& name, const std::vector<std::string_view>& names);

// Error data unless all lists of a level are equally long.
Tensor tensor(const Json& json);
Json to_json(const Tensor& tensor);
Json to_json(double value);

// Rows [B, T] as packed documents. Every row is one of T tokens.
struct Rows {
  kernels::Responses responses;
  std::int64_t num_rows = 0, length = 0;
  Tensor grid(const Tensor& packed_N) const { return packed_N.view({num_rows, length}); }
};
// `rewards`: null where no formula reads them.
Rows rows_of(const Tensor& mask_BT, const Tensor& rewards_B = {});

}  // namespace wmtp::vectors
