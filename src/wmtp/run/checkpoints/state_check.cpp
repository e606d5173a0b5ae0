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

std::uint64_t mixed(std::uint64_t value, std::int64_t next) {
  value = (value ^ static_cast<std::uint64_t>(next)) * 0x9E3779B97F4A7C15ull;
  return value ^ value >> 32;
}

class StateDigest {
 public:
  // A shard as a matrix of 8-byte words: a changed element changes the sum of its column, and two
  // that changed places change the sums of their columns or those of their rows. Sums of integers
  // do not depend on their order, and reading twice is all they cost.
  void add(const Tensor& shard) {
    const Tensor bytes = shard.view(at::kByte);
    const std::int64_t in_words = bytes.numel() / 8 * 8;
    add_words(bytes.narrow(0, 0, in_words).view(at::kLong));
    if (in_words < bytes.numel())
      fold(bytes.narrow(0, in_words, bytes.numel() - in_words).to(at::kLong));
  }

  // 0: nothing was added.
  std::int64_t value() const { return static_cast<std::int64_t>(value_); }

 private:
  void add_words(const Tensor& words) {
    const std::int64_t num_rows = words.numel() / kColumns, num_in_rows = num_rows * kColumns;
    const Tensor matrix = words.narrow(0, 0, num_in_rows).view({num_rows, kColumns});
    fold(at::cat(
        {matrix.sum(0), matrix.sum(1), words.narrow(0, num_in_rows, words.numel() - num_in_rows)}));
  }

  void fold(const Tensor& words) {
    const Tensor host = words.cpu();
    const auto* at = host.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < host.numel(); ++i) value_ = mixed(value_, at[i]);
    value_ += value_ == 0;
  }

  std::uint64_t value_ = 0;
};

// Of what this rank holds and others hold too: everything where there are replicas, else what is
// whole on every rank. 0: nothing is.
std::int64_t held_digest(training::TrainableModel& model) {
  const parallel::Runtime& runtime = model.runtime();
  if (runtime.placement().world == 1) return 0;
  const bool has_replicas = runtime.placement().num_replicas() > 1;
  auto is_replicated = [has_replicas](const layout::BucketPlan& plan) {
    return has_replicas || plan.shard_numel() == plan.padded_numel();
  };
  StateDigest digest;
  std::size_t trained = 0;
  for (const parallel::UnitState& state : runtime.states()) {
    if (state.frozen.defined() && is_replicated(state.plan.frozen)) digest.add(state.frozen);
    if (state.quantized && is_replicated(state.plan.frozen))
      for (const Tensor& part : state.quantized->tensors()) digest.add(part);
    if (!state.master.defined()) continue;
    if (is_replicated(state.plan.trained)) {
      for (const Tensor& part : state.master.tensors()) digest.add(part);
      for (const Tensor& moment : model.optimizer().moments()[trained].tensors())
        digest.add(moment);
    }
    ++trained;
  }
  return digest.value();
}

// The digests of all ranks; empty where nothing is replicated. COLLECTIVE.
std::vector<std::int64_t> digests_of_ranks(training::TrainableModel& model,
                                           comm::Communicator& group) {
  const parallel::Placement& place = model.runtime().placement();
  const std::int64_t mine = held_digest(model);
  if (mine == 0) return {};
  // Halves, since a double holds 53 bits; every rank fills its own row.
  const Tensor host = at::zeros({place.world, 2}, at::kDouble);
  host[place.rank][0].fill_(static_cast<double>(mine >> 32));
  host[place.rank][1].fill_(static_cast<double>(mine & 0xffffffff));
  const Tensor all = host.to(group.device());
  group.all_reduce(all, "state check").wait();
  const Tensor read = all.cpu();
  std::vector<std::int64_t> digests;
  for (int r = 0; r < place.world; ++r)
    digests.push_back((static_cast<std::int64_t>(read[r][0].item<double>()) << 32) |
                      static_cast<std::int64_t>(read[r][1].item<double>()));
  return digests;
}

// Ranks that should hold the same, and those of them that are not of the most: all of them where no
// state is that of most.
struct Comparison {
  std::vector<int> odd;
  bool known = true;  // which ones are odd
};

Comparison compare(const std::vector<std::int64_t>& digests, const std::vector<int>& ranks) {
  std::map<std::int64_t, std::vector<int>> holders;
  for (const int rank : ranks) holders[digests[static_cast<std::size_t>(rank)]].push_back(rank);
  Comparison found;
  if (holders.size() == 1) return found;
  for (const auto& [digest, alike] : holders)
    if (2 * alike.size() <= ranks.size())
      found.odd.insert(found.odd.end(), alike.begin(), alike.end());
  std::sort(found.odd.begin(), found.odd.end());
  found.known = found.odd.size() < ranks.size();
  return found;
}

}  // namespace

std::int64_t replica_digest(training::TrainableModel& model, comm::Communicator& group) {
  const parallel::Placement& place = model.runtime().placement();
  if (place.num_replicas() == 1 || place.shard_world == 1) return held_digest(model);
  const std::vector<std::int64_t> digests = digests_of_ranks(model, group);
  std::uint64_t all = 0;
  for (int position = 0; position < place.shard_world && !digests.empty(); ++position) {
    const auto rank = static_cast<std::size_t>(place.replica() * place.shard_world + position);
    all = mixed(all, digests[rank]);
  }
  return static_cast<std::int64_t>(all);
}

void check_replicated(training::TrainableModel& model, comm::Communicator& group,
                      std::int64_t step) {
  const parallel::Placement& place = model.runtime().placement();
  const std::vector<std::int64_t> digests = digests_of_ranks(model, group);
  if (digests.empty()) return;
  // Without replicas what is whole on every rank is compared between all.
  const int positions = place.num_replicas() > 1 ? place.shard_world : 1;
  std::vector<int> odd;
  bool known = true;
  for (int position = 0; position < positions; ++position) {
    std::vector<int> ranks;
    for (int rank = position; rank < place.world; rank += positions) ranks.push_back(rank);
    const Comparison found = compare(digests, ranks);
    odd.insert(odd.end(), found.odd.begin(), found.odd.end());
    known = known && found.known;
  }
  if (odd.empty()) return;
  std::sort(odd.begin(), odd.end());
  throw Error(ErrorKind::numeric, "train",
              known ? fmt::format("step {}: the weights of rank {} differ from the others'", step,
                                  fmt::join(odd, ", "))
                    : fmt::format("step {}: the weights of the ranks {} differ, and no state is "
                                  "that of most of them",
                                  step, fmt::join(odd, ", ")),
              "all ranks should hold the same: suspect memory or a network card, and go back to "
              "the last checkpoint on other hardware");
}

void flip_a_bit(training::TrainableModel& model) {
  for (const parallel::UnitState& state : model.runtime().states())
    if (state.master.defined()) {
      state.master.values().view(at::kByte).narrow(0, 0, 1).bitwise_xor_(1);
      return;
    }
}

}  // namespace wmtp::run
