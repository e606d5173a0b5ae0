#include "wmtp/run/report/rank_numbers.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "wmtp/tensor/copy_to_device.h"

namespace wmtp::run {

RankNumbers::RankNumbers(comm::Communicator& group, const training::Metrics& mine) : mine_(mine) {
  if (group.world() == 1 || mine.empty()) return;
  std::vector<double> values;
  for (const auto& [name, value] : mine) values.push_back(value);
  const Tensor mine_K = copy_to_device(std::span<const double>(values), group.device());
  all_RK_ = at::empty({group.world(), mine_K.numel()}, mine_K.options());
  work_ = group.all_gather(all_RK_, mine_K, "rank numbers");
}

training::Metrics RankNumbers::maximum() {
  if (!all_RK_.defined()) return mine_;
  work_.wait();
  const Tensor host_RK = all_RK_.cpu();
  training::Metrics largest = mine_;
  for (std::int64_t rank = 0; rank < host_RK.size(0); ++rank)
    for (std::size_t k = 0; k < largest.size(); ++k) {
      const double* row = host_RK.const_data_ptr<double>() + rank * host_RK.size(1);
      largest[k].second = std::max(largest[k].second, row[k]);
    }
  return largest;
}

}  // namespace wmtp::run
