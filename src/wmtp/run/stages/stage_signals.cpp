#include "wmtp/run/stages/stage_signals.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "wmtp/core/log.h"
#include "wmtp/run/data/file_order.h"
#include "wmtp/run/stages/signal_key.h"

namespace wmtp::run {
namespace {

// Blocks of permuted documents are other blocks in every epoch.
bool stays_the_same(const data::Dataset& set) {
  return set.corpus().format() != data::Format::text ||
         set.corpus().options().text.shuffle != data::TextShuffle::documents;
}

struct Coverage {
  std::uint64_t num_rows = 0, num_cached = 0;
  bool complete() const { return num_cached == num_rows; }
};

Coverage coverage(const data::SignalCache& cache, const data::Dataset& set,
                  std::uint64_t num_epochs) {
  Coverage found;
  std::vector<data::Sequence> sequences;
  for (const auto& list : lists_of(set, num_epochs))
    for (std::uint64_t place = 0; place < list->size(); ++place) {
      sequences.clear();
      list->append_sequences(place, sequences);
      for (const data::Sequence& sequence : sequences) {
        ++found.num_rows;
        found.num_cached += cache.has({sequence.sample_id, sequence.part, 0, sequence.length});
      }
    }
  return found;
}

bool all_finite(std::span<const float> numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); });
}

}  // namespace

StageSignals::StageSignals(const config::Config& config, const RunContext& context,
                           const std::optional<FrozenPlan>& frozen, const RunData& data,
                           comm::Communicator& group) {
  if (!frozen || !config.training.signal_cache) return;
  values_ = frozen->options.use == training::FrozenModelOptions::Use::values;
  const std::filesystem::path folder = config.runtime.cache_dir / "signals";
  const std::string weights =
      group
          .gather_bytes(context.rank == 0
                            ? weights_fingerprint(*frozen, context.environment, folder / "weights")
                            : "",
                        comm::Communicator::kAllRanks, "signals")
          .front();
  bool complete = true;
  auto open = [&](const data::Dataset& set, std::uint64_t num_epochs, std::string_view what) {
    const std::string key = signal_key(*frozen, weights, set.corpus());
    auto cache = std::make_unique<data::SignalCache>(folder / key, key);
    const Coverage found = coverage(*cache, set, num_epochs);
    complete = complete && found.complete();
    if (context.rank == 0)
      log::info("signals", "{} of {} rows of the {} set have the {} of {} in {}", found.num_cached,
                found.num_rows, what, values_ ? "values" : "losses", frozen->path,
                cache->folder().string());
    return cache;
  };
  const std::uint64_t num_epochs = data.num_begun_epochs();
  if (stays_the_same(data.train()))
    train_ = open(data.train(), num_epochs, "training");
  else
    complete = false;
  if (data.validation()) {
    if (stays_the_same(*data.validation()))
      validation_ = open(*data.validation(), 1, "validation");
    else
      complete = false;
  }
  const auto votes =
      group.gather_bytes(complete ? "1" : "0", comm::Communicator::kAllRanks, "signals complete");
  complete_ = std::all_of(votes.begin(), votes.end(), [](const auto& vote) { return vote == "1"; });
  if (complete_ && context.rank == 0)
    log::info("signals", "{} is not loaded: all it would say is known", frozen->path);
}

void StageSignals::follow(training::FrozenModel& model) {
  reads_ = !model.sharded();
  model.observe(
      [this](const training::DeviceBatch& batch, const Tensor& signal_N) { see(batch, signal_N); });
}

void StageSignals::see(const training::DeviceBatch& batch, const Tensor& signal_N) {
  data::SignalCache* cache = batch.signal_cache;
  const auto& rows = batch.signal_rows;
  if (!cache || std::all_of(rows.begin(), rows.end(),
                            [&](const data::SignalRow& row) { return cache->has(row); }))
    return;
  Tensor host = signal_N.detach();
  if (signal_N.is_cuda()) {
    host = at::empty(signal_N.sizes(), at::TensorOptions().dtype(at::kFloat).pinned_memory(true));
    host.copy_(signal_N, /*non_blocking=*/true);
  }
  seen_.push_back({cache, rows, std::move(host)});
  ++num_seen_;
}

void StageSignals::write(std::size_t mark) {
  for (; num_seen_ - seen_.size() < mark; seen_.pop_front()) {
    const Seen& seen = seen_.front();
    const std::span<const float> signal_N(seen.signal_N.const_data_ptr<float>(),
                                          static_cast<std::size_t>(seen.signal_N.numel()));
    for (const data::SignalRow& row : seen.rows)
      if (all_finite(signal_N.subspan(row.begin, row.length))) seen.cache->append(row, signal_N);
    seen.cache->flush();
  }
}

}  // namespace wmtp::run
