#include "wmtp/run/data/file_order.h"

#include <algorithm>
#include <tuple>

#include "wmtp/data/tokens/truncation.h"

namespace wmtp::run {
namespace {

// Sample ids rise from file to file and from row to row.
bool stands_before(const data::Sequence& a, const data::Sequence& b) {
  return std::tie(a.sample_id, a.part) < std::tie(b.sample_id, b.part);
}

bool is_the_same(const data::Sequence& a, const data::Sequence& b) {
  return a.sample_id == b.sample_id && a.part == b.part;
}

}  // namespace

std::vector<std::shared_ptr<const data::EpochView>> lists_of(const data::Dataset& set,
                                                             std::uint64_t num_epochs) {
  std::vector<std::shared_ptr<const data::EpochView>> lists;
  std::string last;
  for (std::uint64_t epoch = 0; epoch < num_epochs; ++epoch) {
    std::string hash = set.list_hash(epoch);
    if (epoch == 0 || hash != last) lists.push_back(set.epoch(epoch));
    last = std::move(hash);
  }
  return lists;
}

FileOrder::FileOrder(const data::Dataset& set, std::uint64_t num_epochs,
                     const data::StepShape& shape, int num_heads)
    : shape_(shape), num_heads_(num_heads) {
  const auto lists = lists_of(set, num_epochs);
  view_ = lists.front();
  for (const auto& list : lists)
    for (std::uint64_t place = 0; place < list->size(); ++place)
      list->append_sequences(place, sequences_);
  std::sort(sequences_.begin(), sequences_.end(), stands_before);
  sequences_.erase(std::unique(sequences_.begin(), sequences_.end(), is_the_same),
                   sequences_.end());
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    sequences_[i].pair_role = kSingle;
    if (i == 0 || sequences_[i].sample_id != sequences_[i - 1].sample_id) samples_.push_back(i);
  }
}

std::size_t FileOrder::begin_of(std::uint64_t sample) const {
  return sample < samples_.size() ? samples_[sample] : sequences_.size();
}

bool FileOrder::next(data::MicroBatchPlan& plan) {
  if (at_ >= samples_.size()) return false;
  const std::uint64_t first = at_ + std::uint64_t(shape_.rank) * shape_.batch_size;
  at_ += std::uint64_t(shape_.world_size) * shape_.batch_size;
  plan = {};
  plan.view = view_;
  plan.sequences.assign(
      sequences_.begin() + static_cast<std::ptrdiff_t>(begin_of(first)),
      sequences_.begin() + static_cast<std::ptrdiff_t>(begin_of(first + shape_.batch_size)));
  plan.step_head_targets.resize(static_cast<std::size_t>(num_heads_));
  for (const data::Sequence& sequence : plan.sequences)
    for (std::uint32_t head = 0; head < plan.step_head_targets.size(); ++head)
      plan.step_head_targets[head] +=
          data::num_targets(sequence.length, sequence.prompt_len, head + 1);
  return true;
}

}  // namespace wmtp::run
