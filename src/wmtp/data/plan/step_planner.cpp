#include "wmtp/data/plan/step_planner.h"

#include <algorithm>
#include <cmath>

#include "wmtp/core/error.h"
#include "wmtp/data/plan/collate.h"
#include "wmtp/data/tokens/truncation.h"

namespace wmtp::data {
namespace {

constexpr std::uint64_t kMillion = 1'000'000;

std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

void count_targets(std::span<const Sequence> sequences, std::span<std::int64_t> head_targets) {
  for (const Sequence& sequence : sequences)
    for (std::size_t head = 0; head < head_targets.size(); ++head)
      head_targets[head] +=
          num_targets(sequence.length, sequence.prompt_len, static_cast<std::uint32_t>(head + 1));
}

// Into the fields of a step's (or a whole set's) plan.
void count(const std::vector<Sequence>& sequences, MicroBatchPlan& plan) {
  count_targets(sequences, plan.step_head_targets);
  for (const Sequence& sequence : sequences) {
    ++plan.step_sequences;
    plan.step_pairs += sequence.pair_role == kPositive;
    plan.step_response_tokens += sequence.length - std::min(sequence.prompt_len, sequence.length);
  }
}

}  // namespace

std::uint64_t epochs_in_millionths(double num_epochs) {
  return static_cast<std::uint64_t>(std::llround(num_epochs * static_cast<double>(kMillion)));
}

std::uint64_t samples_in_epoch(std::uint64_t num_epochs_millionths, std::uint64_t epoch,
                               std::uint64_t n) {
  const std::uint64_t whole = num_epochs_millionths / kMillion;
  if (epoch < whole) return n;
  if (epoch > whole) return 0;
  return static_cast<std::uint64_t>(
      static_cast<unsigned __int128>(num_epochs_millionths % kMillion) * n / kMillion);
}

std::uint64_t steps_left(std::uint64_t num_epochs_millionths, std::uint64_t n,
                         std::uint64_t samples_per_step, std::uint64_t epoch,
                         std::uint64_t samples_taken) {
  const std::uint64_t whole = num_epochs_millionths / kMillion;
  std::uint64_t steps = 0;
  const std::uint64_t current = samples_in_epoch(num_epochs_millionths, epoch, n);
  if (current > samples_taken) steps += ceil_div(current - samples_taken, samples_per_step);
  if (epoch >= whole) return steps;
  steps += (whole - epoch - 1) * ceil_div(n, samples_per_step);
  return steps + ceil_div(samples_in_epoch(num_epochs_millionths, whole, n), samples_per_step);
}

TrainPlanner::TrainPlanner(std::shared_ptr<const Dataset> dataset, const Run& run)
    : dataset_(std::move(dataset)), run_(run) {
  WMTP_CHECK(run.shape.rank < run.shape.world_size && run.shape.batch_size > 0 &&
                 run.shape.accumulation > 0,
             "step shape");
}

bool TrainPlanner::next(MicroBatchPlan& plan) {
  if (next_ready_ == ready_.size() && !plan_step()) return false;
  plan = std::move(ready_[next_ready_++]);
  return true;
}

bool TrainPlanner::plan_step() {
  std::uint64_t limit = samples_in_epoch(run_.num_epochs_millionths, run_.epoch, dataset_->size());
  while (run_.samples_taken >= limit) {
    if (run_.epoch >= run_.num_epochs_millionths / kMillion) return false;
    ++run_.epoch, run_.samples_taken = 0;
    limit = samples_in_epoch(run_.num_epochs_millionths, run_.epoch, dataset_->size());
  }
  if (view_epoch_ != run_.epoch) view_ = dataset_->epoch(run_.epoch), view_epoch_ = run_.epoch;
  const StepShape& shape = run_.shape;
  const std::uint64_t g = std::min(shape.samples_per_step(), limit - run_.samples_taken);
  all_.clear();
  std::vector<std::size_t> first_of_place;
  for (std::uint64_t i = 0; i < g; ++i) {
    first_of_place.push_back(all_.size());
    view_->append_sequences(run_.samples_taken + i, all_);
  }
  first_of_place.push_back(all_.size());
  MicroBatchPlan common;
  if (run_.collate.max_tokens_per_batch)
    group_by_tokens(all_, first_of_place);
  else
    common.scope_targets = group_by_place(all_, first_of_place);
  common.step_head_targets.resize(static_cast<std::size_t>(run_.collate.num_heads));
  count(all_, common);
  run_.samples_taken += g;
  common.cursor_after = dataset_->cursor_at(run_.epoch, run_.samples_taken);
  for (std::size_t j = 0; j < ready_.size(); ++j) {
    MicroBatchPlan& plan = ready_[j];
    auto sequences = std::move(plan.sequences);
    plan = common;
    plan.sequences = std::move(sequences);
    plan.view = view_;
    plan.step = step_;
    plan.epoch = run_.epoch;
    plan.micro_batch = static_cast<std::uint32_t>(j);
    plan.num_micro_batches = static_cast<std::uint32_t>(ready_.size());
  }
  next_ready_ = 0;
  ++step_;
  return true;
}

std::shared_ptr<const std::vector<std::int64_t>> TrainPlanner::group_by_place(
    const std::vector<Sequence>& all, const std::vector<std::size_t>& first_of_place) {
  const StepShape& shape = run_.shape;
  const std::uint64_t width = shape.batch_size, g = first_of_place.size() - 1;
  const auto world = static_cast<std::uint64_t>(shape.world_size);
  const auto heads = static_cast<std::size_t>(run_.collate.num_heads);
  ready_.assign(ceil_div(g, width * world), {});
  auto targets = std::make_shared<std::vector<std::int64_t>>(ready_.size() * world * heads);
  for (std::uint64_t group = 0; group * width < g; ++group) {
    const std::size_t begin = first_of_place[group * width];
    const std::size_t end = first_of_place[std::min((group + 1) * width, g)];
    count_targets({all.data() + begin, end - begin}, {targets->data() + group * heads, heads});
    if (group % world == static_cast<std::uint64_t>(shape.rank))
      ready_[group / world].sequences.assign(all.begin() + static_cast<std::ptrdiff_t>(begin),
                                             all.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return targets;
}

// Each rank's share, in order, cut into micro-batches of at most batch_size samples and max_tokens
// tokens; all ranks run as many as the one with most.
void TrainPlanner::group_by_tokens(const std::vector<Sequence>& all,
                                   const std::vector<std::size_t>& first_of_place) {
  const StepShape& shape = run_.shape;
  const auto world = static_cast<std::uint64_t>(shape.world_size);
  const std::uint64_t g = first_of_place.size() - 1;
  std::size_t most = 0;
  std::vector<MicroBatchPlan> mine;
  for (std::uint64_t rank = 0; rank < world; ++rank) {
    std::vector<MicroBatchPlan> batches;
    BatchCost cost(run_.collate);
    std::uint64_t num_samples = 0;
    for (std::uint64_t place = 0; place < g; ++place) {
      if (place / shape.batch_size % world != rank) continue;
      const std::span<const Sequence> sample(all.data() + first_of_place[place],
                                             first_of_place[place + 1] - first_of_place[place]);
      if (batches.empty() || num_samples == shape.batch_size || !cost.fits(sample)) {
        batches.emplace_back();
        cost = BatchCost(run_.collate);
        num_samples = 0;
      }
      cost.add(sample);
      ++num_samples;
      batches.back().sequences.insert(batches.back().sequences.end(), sample.begin(), sample.end());
    }
    most = std::max(most, batches.size());
    if (rank == static_cast<std::uint64_t>(shape.rank)) mine = std::move(batches);
  }
  mine.resize(most);
  ready_ = std::move(mine);
}

ValidationPlanner::ValidationPlanner(std::shared_ptr<const Dataset> dataset, const StepShape& shape,
                                     int num_heads)
    : dataset_(std::move(dataset)), shape_(shape), view_(dataset_->epoch(0)) {
  whole_.step_head_targets.resize(static_cast<std::size_t>(num_heads));
  std::vector<Sequence> sequences;
  for (std::uint64_t place = 0; place < view_->size(); ++place) {
    sequences.clear();
    view_->append_sequences(place, sequences);
    count(sequences, whole_);
  }
  const auto world = static_cast<std::uint64_t>(shape.world_size),
             rank = static_cast<std::uint64_t>(shape.rank);
  const std::uint64_t base = view_->size() / world, extra = view_->size() % world;
  begin_ = rank * base + std::min(rank, extra);
  end_ = begin_ + base + (rank < extra ? 1 : 0);
  num_batches_ = static_cast<std::uint32_t>(ceil_div(base + (extra > 0 ? 1 : 0), shape.batch_size));
}

bool ValidationPlanner::next(MicroBatchPlan& plan) {
  if (at_ == num_batches_) return false;
  plan = whole_;
  plan.view = view_;
  plan.micro_batch = at_++;
  plan.num_micro_batches = num_batches_;
  for (std::uint32_t i = 0; i < shape_.batch_size && begin_ < end_; ++i)
    view_->append_sequences(begin_++, plan.sequences);
  return true;
}

}  // namespace wmtp::data
