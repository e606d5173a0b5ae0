#include "wmtp/kernels/support/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "wmtp/core/error.h"

namespace wmtp::kernels {

ArgChecks::ArgChecks(std::string_view op, const Tensor& lead) : op_(op), device_(c10::kCPU) {
  if (!lead.defined()) fail("first argument", "is undefined");
  device_ = lead.device();
}

const ArgChecks& ArgChecks::matrix(std::string_view name, const Tensor& tensor, std::int64_t rows,
                                   std::int64_t columns, DType wanted) const {
  place(name, tensor, {rows, columns});
  dtype(name, tensor, wanted);
  if (columns > 1 && tensor.stride(1) != 1) fail(name, "has columns that are not contiguous");
  return *this;
}

const ArgChecks& ArgChecks::heads(std::string_view name, const Tensor& tensor,
                                  c10::IntArrayRef sizes, DType wanted) const {
  place(name, tensor, sizes);
  dtype(name, tensor, wanted);
  if (tensor.stride(2) != 1) fail(name, "has features that are not contiguous");
  return *this;
}

const ArgChecks& ArgChecks::vector(std::string_view name, const Tensor& tensor, std::int64_t size,
                                   DType wanted) const {
  place(name, tensor, {size});
  dtype(name, tensor, wanted);
  if (!tensor.is_contiguous()) fail(name, "is not contiguous");
  return *this;
}

const ArgChecks& ArgChecks::scalar(std::string_view name, const Tensor& tensor,
                                   DType wanted) const {
  place(name, tensor, {});
  dtype(name, tensor, wanted);
  return *this;
}

const ArgChecks& ArgChecks::gradient(std::string_view name, const Tensor& tensor,
                                     c10::IntArrayRef sizes) const {
  place(name, tensor, sizes);
  if (!c10::isFloatingType(tensor.scalar_type()))
    fail(name, fmt::format("is {}, not a floating type", name_of(tensor.scalar_type())));
  if (!tensor.is_contiguous()) fail(name, "is not contiguous");
  return *this;
}

void ArgChecks::place(std::string_view name, const Tensor& tensor, c10::IntArrayRef sizes) const {
  if (!tensor.defined()) fail(name, "is undefined");
  if (tensor.device() != device_)
    fail(name, fmt::format("is on {}, not on {}", tensor.device().str(), device_.str()));
  if (tensor.sizes() != sizes)
    fail(name, fmt::format("has shape [{}], not [{}]", fmt::join(tensor.sizes(), ", "),
                           fmt::join(sizes, ", ")));
}

void ArgChecks::dtype(std::string_view name, const Tensor& tensor, DType wanted) const {
  if (tensor.scalar_type() != wanted)
    fail(name, fmt::format("is {}, not {}", name_of(tensor.scalar_type()), name_of(wanted)));
}

void ArgChecks::fail(std::string_view name, std::string_view fact) const {
  throw Error(ErrorKind::internal, "kernels", fmt::format("{}: {} {}", op_, name, fact),
              "this is a bug in wmtp; please report it");
}

DType statistics_dtype(DType compute) {
  return compute == kFloat64 ? kFloat64 : kFloat32;
}

bool is_double_on_cpu(std::string_view op, const Tensor& tensor) {
  if (tensor.scalar_type() == kFloat64) return true;
  if (tensor.scalar_type() == kFloat32) return false;
  throw Error(ErrorKind::config, "kernels",
              fmt::format("{}: {} compute on the CPU", op, name_of(tensor.scalar_type())),
              "use param_dtype fp32 on the CPU, or a GPU");
}

}  // namespace wmtp::kernels
