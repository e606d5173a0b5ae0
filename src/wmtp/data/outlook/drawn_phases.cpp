#include "wmtp/data/outlook/drawn_phases.h"

#include <algorithm>
#include <cmath>

#include "wmtp/data/plan/step_planner.h"

namespace wmtp::data {
namespace {

constexpr std::uint64_t kMostEpochs = 64;

std::vector<CurriculumPiece> pieces_of(const Dataset& dataset, std::uint64_t epoch) {
  if (!dataset.options().curriculum_learning) return {{0, 0, dataset.size()}};
  return curriculum_pieces(dataset.options().curriculum_schedule, epoch, dataset.size());
}

std::uint64_t epochs_to_draw(const Dataset& dataset, const RunLength& length) {
  const std::uint64_t begun = (length.num_epochs_millionths + 999'999) / 1'000'000;
  const auto& options = dataset.options();
  const std::uint64_t differing =
      options.curriculum_learning
          ? static_cast<std::uint64_t>(std::ceil(options.curriculum_schedule.back().from_epoch)) + 1
          : 1;
  return std::min({begun, differing, kMostEpochs});
}

// The places of an epoch that the run takes.
std::uint64_t places_taken(const Dataset& dataset, const RunLength& length, std::uint64_t epoch) {
  const std::uint64_t n = dataset.size(), width = length.samples_per_step;
  const std::uint64_t taken = samples_in_epoch(length.num_epochs_millionths, epoch, n);
  if (length.max_steps == 0) return taken;
  const std::uint64_t before = epoch * ((n + width - 1) / width);
  return length.max_steps <= before ? 0 : std::min(taken, (length.max_steps - before) * width);
}

void count_samples(const Dataset& dataset, const EpochView& view, DrawnPhase& phase) {
  const Bins bins(dataset.options().difficulty_bins);
  const RowTable& table = dataset.corpus().table();
  std::vector<Sequence> sample;
  for (std::uint64_t i = 0; i < phase.num_samples; ++i) {
    sample.clear();
    view.append_sequences(phase.first_place + i, sample);
    const auto row = static_cast<std::uint32_t>(sample.front().source);
    if (const auto bin = bins.bin_of(table.difficulty(row))) ++phase.drawn[*bin];
    phase.num_correct += sample.front().pair_role == kSingle && table.is_correct(row) ? 1 : 0;
  }
}

}  // namespace

std::uint64_t num_steps(const RunLength& length, std::uint64_t samples_per_epoch) {
  const std::uint64_t steps =
      steps_left(length.num_epochs_millionths, samples_per_epoch, length.samples_per_step);
  return length.max_steps == 0 ? steps : std::min(steps, length.max_steps);
}

DrawnPhases drawn_phases(const Dataset& dataset, const RunLength& length) {
  DrawnPhases out;
  for (const config::DifficultyBin& bin : dataset.options().difficulty_bins)
    out.bins.push_back(bin.name);
  if (out.bins.empty() || dataset.corpus().format() == Format::text) return {};
  const std::uint64_t width = length.samples_per_step;
  const std::uint64_t steps_per_epoch = (dataset.size() + width - 1) / width;
  const std::uint64_t num_epochs = epochs_to_draw(dataset, length);
  for (std::uint64_t epoch = 0; epoch < num_epochs; ++epoch) {
    const std::uint64_t taken = places_taken(dataset, length, epoch);
    if (taken == 0) break;
    const auto view = dataset.epoch(epoch);
    for (const CurriculumPiece& piece : pieces_of(dataset, epoch)) {
      if (piece.first >= taken) break;
      DrawnPhase phase{epoch, piece.first, std::min(piece.count, taken - piece.first), 0, 0, {}, 0};
      phase.first_step = epoch * steps_per_epoch + phase.first_place / width;
      phase.last_step =
          epoch * steps_per_epoch + (phase.first_place + phase.num_samples - 1) / width;
      phase.drawn.resize(out.bins.size());
      count_samples(dataset, *view, phase);
      out.phases.push_back(std::move(phase));
    }
    ++out.num_epochs;
  }
  return out;
}

}  // namespace wmtp::data
