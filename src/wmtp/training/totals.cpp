#include "wmtp/training/totals.h"

#include <ATen/ops/isfinite.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "wmtp/core/error.h"

namespace wmtp::training {

void TotalsLayout::add(std::string name, std::int64_t size) {
  insert(std::move(name), {size_, size, false}, size);
}

void TotalsLayout::add_per_rank(std::string name, std::int64_t size) {
  insert(std::move(name), {size_, size, true}, size * world_);
}

void TotalsLayout::insert(std::string name, Slot slot, std::int64_t width) {
  const bool is_new = slots_.emplace(std::move(name), slot).second;
  WMTP_CHECK(is_new, "two slots of one name");
  size_ += width;
}

const TotalsLayout::Slot& TotalsLayout::at(std::string_view name) const {
  const auto slot = slots_.find(name);
  if (slot == slots_.end())
    throw Error(ErrorKind::internal, "training", fmt::format("no slot is called {}", name));
  return slot->second;
}

HostTotals::HostTotals(const TotalsLayout& layout, const Tensor& packed) : layout_(layout) {
  const Tensor host = packed.cpu();
  values_.assign(host.data_ptr<double>(), host.data_ptr<double>() + host.numel());
}

std::span<const double> HostTotals::values(std::string_view name) const {
  const TotalsLayout::Slot& slot = layout_.at(name);
  const std::int64_t width = slot.per_rank ? slot.size * layout_.world() : slot.size;
  return {values_.data() + slot.begin, static_cast<std::size_t>(width)};
}

void HostTotals::add(const HostTotals& other) {
  WMTP_CHECK(values_.size() == other.values_.size(), "totals of different layouts");
  for (std::size_t i = 0; i < values_.size(); ++i) values_[i] += other.values_[i];
}

void HostTotals::scale(std::string_view name, double factor) {
  const TotalsLayout::Slot& slot = layout_.at(name);
  const std::int64_t width = slot.per_rank ? slot.size * layout_.world() : slot.size;
  for (std::int64_t i = 0; i < width; ++i)
    values_[static_cast<std::size_t>(slot.begin + i)] *= factor;
}

Totals::Totals(const TotalsLayout& layout, int rank, c10::Device device)
    : layout_(&layout),
      rank_(rank),
      packed_(at::zeros({layout.size()}, at::TensorOptions().dtype(at::kDouble).device(device))) {}

Tensor Totals::operator[](std::string_view name) const {
  const TotalsLayout::Slot& slot = layout_->at(name);
  return packed_.narrow(0, slot.begin + (slot.per_rank ? slot.size * rank_ : 0), slot.size);
}

void Totals::reduce(comm::Communicator& group, std::string_view label) {
  group.all_reduce(packed_, label).wait();
}

void Totals::zero() {
  packed_.zero_();
}

Totals Totals::copy() const {
  Totals copied = *this;
  copied.packed_ = packed_.clone();
  return copied;
}

Tensor Totals::finite() const {
  return at::isfinite(packed_.sum());
}

Tensor Totals::finite_but(std::string_view name) const {
  const TotalsLayout::Slot& slot = layout_->at(name);
  WMTP_CHECK(slot.begin == 0, "only the first slot can be left out");
  return at::isfinite(packed_.narrow(0, slot.size, packed_.size(0) - slot.size).sum());
}

}  // namespace wmtp::training
