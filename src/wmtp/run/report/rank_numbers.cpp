#include "wmtp/run/report/rank_numbers.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>

#include "wmtp/tensor/copy_to_device.h"

namespace wmtp::run {

RankNumbers::RankNumbers(comm::Communicator& group, std::vector<RankNumber> mine)
    : mine_(std::move(mine)) {
  if (mine_.empty()) return;
  std::vector<double> values;
  for (const RankNumber& number : mine_) values.push_back(number.value);
  if (group.world() == 1) {
    rows_.push_back(std::move(values));
    return;
  }
  const Tensor mine_K = copy_to_device(std::span<const double>(values), group.device());
  all_RK_ = at::empty({group.world(), mine_K.numel()}, mine_K.options());
  work_ = group.all_gather(all_RK_, mine_K, "rank numbers");
}

const std::vector<std::vector<double>>& RankNumbers::rows() {
  if (!all_RK_.defined() || !rows_.empty()) return rows_;
  work_.wait();
  const Tensor host_RK = all_RK_.cpu();
  for (std::int64_t rank = 0; rank < host_RK.size(0); ++rank) {
    const double* row = host_RK.const_data_ptr<double>() + rank * host_RK.size(1);
    rows_.emplace_back(row, row + host_RK.size(1));
  }
  return rows_;
}

training::Metrics RankNumbers::reduced(std::size_t first, std::size_t count) {
  training::Metrics found;
  for (std::size_t k = first; k < mine_.size() && k - first < count; ++k) {
    double sum = 0, largest = 0;
    int num_ranks = 0;
    for (const std::vector<double>& row : rows()) {
      if (std::isnan(row[k])) continue;
      sum += row[k];
      largest = num_ranks == 0 ? row[k] : std::max(largest, row[k]);
      ++num_ranks;
    }
    if (num_ranks == 0) continue;
    // The mean of equal values may come out a rounding above them.
    const double mean = std::min(sum / num_ranks, largest);
    found.emplace_back(mine_[k].name, mine_[k].over_ranks == Reduction::mean ? mean : largest);
  }
  return found;
}

}  // namespace wmtp::run
