#include "wmtp/parallel/master.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace wmtp::parallel {
namespace {

constexpr DType kLowerPlane = c10::ScalarType::Short;

Tensor empty_host(std::int64_t size, DType dtype) {
  return at::empty({size}, at::TensorOptions().dtype(dtype));
}

}  // namespace

Master Master::in_planes(std::int64_t size, const at::TensorOptions& options) {
  return Master(at::zeros({size}, options.dtype(kBFloat16)),
                at::zeros({size}, options.dtype(kLowerPlane)));
}

std::int64_t Master::bytes() const {
  std::int64_t sum = 0;
  for (const Tensor& part : tensors()) sum += static_cast<std::int64_t>(part.nbytes());
  return sum;
}

DType Master::dtype() const {
  return lower_.defined() ? kFloat32 : values_.scalar_type();
}

std::vector<Tensor> Master::tensors() const {
  std::vector<Tensor> all;
  for (const Tensor& part : {values_, lower_})
    if (part.defined()) all.push_back(part);
  return all;
}

Master Master::narrow(layout::Range range) const {
  const auto part = [&](const Tensor& flat) {
    return flat.defined() ? flat.narrow(0, range.begin, range.size()) : Tensor();
  };
  return Master(part(values_), part(lower_));
}

Tensor Master::joined() const {
  if (!lower_.defined()) return values_;
  Tensor whole = at::empty({numel()}, values_.options().dtype(kFloat32).pinned_memory(false));
  kernels::join_planes(planes(), whole);
  return whole;
}

void Master::read_into(const Tensor& host, bool non_blocking) const {
  if (!lower_.defined()) {
    host.copy_(values_, non_blocking);
  } else if (values_.is_cpu()) {
    kernels::join_planes(planes(), host);
  } else {
    for (std::int64_t at = 0; at < numel(); at += kJoinedAtOnce) {
      const layout::Range piece{at, std::min(at + kJoinedAtOnce, numel())};
      host.narrow(0, at, piece.size()).copy_(narrow(piece).joined(), non_blocking);
    }
  }
}

void Master::write(const Tensor& host) const {
  if (!lower_.defined()) {
    values_.copy_(host);
  } else if (values_.is_cpu()) {
    kernels::split_planes(host, planes());
  } else {
    const kernels::Planes split{empty_host(numel(), kBFloat16), empty_host(numel(), kLowerPlane)};
    kernels::split_planes(host, split);
    values_.copy_(split.upper);
    lower_.copy_(split.lower);
  }
}

}  // namespace wmtp::parallel
