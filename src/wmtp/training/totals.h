// The one vector that is summed over ranks in a step, fp64, on the device: loss sums, the
// gradient's squared norm, statistics, flags. Who needs numbers registers slots by name; all ranks
// register the same ones in the same order. What is not a sum (a minimum) has a part for each rank.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/comm/communicator.h"
#include "wmtp/tensor/copy_to_host.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::training {

class TotalsLayout {
 public:
  explicit TotalsLayout(int world) : world_(world) {}
  void add(std::string name, std::int64_t size = 1);
  void add_per_rank(std::string name, std::int64_t size);

  struct Slot {
    std::int64_t begin = 0, size = 0;  // size: of one rank's part
    bool per_rank = false;
  };
  const Slot& at(std::string_view name) const;  // Error internal for an unknown name
  bool has(std::string_view name) const { return slots_.contains(name); }
  std::int64_t size() const { return size_; }
  int world() const { return world_; }

 private:
  void insert(std::string name, Slot slot, std::int64_t width);

  int world_;
  std::int64_t size_ = 0;
  std::map<std::string, Slot, std::less<>> slots_;
};

// Read back on the host.
class HostTotals {
 public:
  HostTotals(const TotalsLayout& layout, const Tensor& packed);  // BLOCKS
  double value(std::string_view name) const { return values(name).front(); }
  // The slot's numbers; of a per-rank slot those of all ranks, one after the other.
  std::span<const double> values(std::string_view name) const;
  bool has(std::string_view name) const { return layout_.has(name); }

  // To sum over steps. What is no sum (per-rank slots) means nothing afterwards.
  void add(const HostTotals& other);  // REQUIRES the same layout
  void scale(std::string_view name, double factor);

 private:
  TotalsLayout layout_;
  std::vector<double> values_;
};

class Totals {
 public:
  // BORROWS the layout.
  Totals(const TotalsLayout& layout, int rank, c10::Device device);

  Tensor operator[](std::string_view name) const;  // [size] view; of a per-rank slot this rank's
  void reduce(comm::Communicator& group, std::string_view label);  // COLLECTIVE
  Tensor finite() const;                                           // 0-d bool: every number is
  Tensor finite_but(std::string_view name) const;  // all but the first slot, which is `name`
  HostTotals read() const { return HostTotals(*layout_, packed_); }  // BLOCKS
  // For HostTotals of this layout, which the host makes later.
  HostCopy copy_to_host() const { return HostCopy(packed_); }
  const TotalsLayout& layout() const { return *layout_; }
  void zero();
  Totals copy() const;  // numbers of its own
  int rank() const { return rank_; }

 private:
  const TotalsLayout* layout_;
  int rank_;
  Tensor packed_;
};

}  // namespace wmtp::training
