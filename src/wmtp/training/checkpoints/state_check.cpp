#include "wmtp/training/checkpoints/state_check.h"

#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "wmtp/core/error.h"

namespace wmtp::training {
namespace {

std::int64_t digest_of(const Tensor& values) {
  const auto bits = values.element_size() == 4   ? at::kInt
                    : values.element_size() == 2 ? at::kShort
                                                 : at::kLong;
  return values.view(bits).sum(at::kLong).item<std::int64_t>();
}

}  // namespace

std::int64_t replicated_digest(TrainableModel& model) {
  const parallel::Runtime& runtime = model.runtime();
  if (runtime.placement().world == 1 || runtime.options().strategy != parallel::Strategy::no_shard)
    return 0;
  std::uint64_t digest = 1;
  const auto add = [&digest](const Tensor& values) {
    digest = digest * 1'000'003 + static_cast<std::uint64_t>(digest_of(values));
  };
  for (const parallel::UnitState& state : runtime.states())
    if (state.master.defined()) add(state.master);
  for (const Tensor& moment : model.optimizer().exp_avg()) add(moment);
  for (const Tensor& moment : model.optimizer().exp_avg_sq()) add(moment);
  return static_cast<std::int64_t>(digest);
}

void check_replicated(TrainableModel& model, comm::Communicator& group, std::int64_t step) {
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
  std::size_t most = 0;
  for (const auto& [digest, alike] : ranks) most = std::max(most, alike.size());
  std::vector<int> odd;
  for (const auto& [digest, alike] : ranks)
    if (alike.size() < most || most == 1) odd.insert(odd.end(), alike.begin(), alike.end());
  throw Error(
      ErrorKind::numeric, "train",
      fmt::format("step {}: the weights of rank {} differ from the others'", step,
                  fmt::join(odd, ", ")),
      "they should be equal under NO_SHARD: suspect memory or a network card, and go back to "
      "the last checkpoint on other hardware");
}

}  // namespace wmtp::training
