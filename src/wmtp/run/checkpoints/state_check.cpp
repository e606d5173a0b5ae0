#include "wmtp/run/checkpoints/state_check.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "wmtp/core/error.h"

namespace wmtp::run {
namespace {

constexpr std::int64_t kColumns = 4096;

class StateDigest {
 public:
  // A shard as a matrix of 8-byte words: a changed element changes the sum of its column, and two
  // that changed places change the sums of their columns or those of their rows. Sums of integers
  // do not depend on their order, and reading twice is all they cost.
  void add(const Tensor& shard) {
    const Tensor words = shard.view(at::kLong);  // shards are whole multiples of 128 elements
    const std::int64_t num_rows = words.numel() / kColumns, num_in_rows = num_rows * kColumns;
    const Tensor matrix = words.narrow(0, 0, num_in_rows).view({num_rows, kColumns});
    fold(at::cat(
        {matrix.sum(0), matrix.sum(1), words.narrow(0, num_in_rows, words.numel() - num_in_rows)}));
  }

  // 0: nothing was added.
  std::int64_t value() const { return static_cast<std::int64_t>(value_); }

 private:
  void fold(const Tensor& words) {
    const Tensor host = words.cpu();
    const auto* at = host.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < host.numel(); ++i) {
      value_ = (value_ ^ static_cast<std::uint64_t>(at[i])) * 0x9E3779B97F4A7C15ull;
      value_ ^= value_ >> 32;
    }
    value_ += value_ == 0;
  }

  std::uint64_t value_ = 0;
};

bool is_replicated(const layout::BucketPlan& plan) {
  return plan.shard_numel() == plan.padded_numel();
}

}  // namespace

std::int64_t replicated_digest(training::TrainableModel& model) {
  const parallel::Runtime& runtime = model.runtime();
  if (runtime.placement().world == 1) return 0;
  StateDigest digest;
  std::size_t trained = 0;
  for (const parallel::UnitState& state : runtime.states()) {
    if (state.frozen.defined() && is_replicated(state.plan.frozen)) digest.add(state.frozen);
    if (!state.master.defined()) continue;
    if (is_replicated(state.plan.trained)) {
      digest.add(state.master);
      digest.add(model.optimizer().exp_avg()[trained]);
      digest.add(model.optimizer().exp_avg_sq()[trained]);
    }
    ++trained;
  }
  return digest.value();
}

void check_replicated(training::TrainableModel& model, comm::Communicator& group,
                      std::int64_t step) {
  const parallel::Placement& place = model.runtime().placement();
  const std::int64_t mine = replicated_digest(model);
  if (mine == 0) return;
  // Halves, since a double holds 53 bits; every rank fills its own row.
  const Tensor host = at::zeros({place.world, 2}, at::kDouble);
  host[place.rank][0].fill_(static_cast<double>(mine >> 32));
  host[place.rank][1].fill_(static_cast<double>(mine & 0xffffffff));
  const Tensor all = host.to(group.device());
  group.all_reduce(all, "state check").wait();
  const Tensor read = all.cpu();
  std::map<std::pair<double, double>, std::vector<int>> ranks;
  for (int r = 0; r < place.world; ++r)
    ranks[{read[r][0].item<double>(), read[r][1].item<double>()}].push_back(r);
  if (ranks.size() == 1) return;
  std::vector<int> odd;
  for (const auto& [digest, alike] : ranks)
    if (2 * alike.size() <= static_cast<std::size_t>(place.world))
      odd.insert(odd.end(), alike.begin(), alike.end());
  std::sort(odd.begin(), odd.end());
  const bool known = odd.size() < static_cast<std::size_t>(place.world);
  throw Error(ErrorKind::numeric, "train",
              known ? fmt::format("step {}: the weights of rank {} differ from the others'", step,
                                  fmt::join(odd, ", "))
                    : fmt::format("step {}: the weights of the ranks {} differ, and no state is "
                                  "that of most of them",
                                  step, fmt::join(odd, ", ")),
              "all ranks should hold the same: suspect memory or a network card, and go back to "
              "the last checkpoint on other hardware");
}

}  // namespace wmtp::run
