#include "wmtp/run/plan/sizing/choose.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/run/plan/sizing/choices.h"

namespace wmtp::run {
namespace {

constexpr double kAlike = 0.99;  // of the best expected speed

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> found;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    found.push_back(d);
    if (d * d != number) found.push_back(number / d);
  }
  std::ranges::sort(found);
  return found;
}

std::vector<std::int64_t> doublings(std::int64_t most) {
  std::vector<std::int64_t> found;
  for (std::int64_t batch = 1; batch <= most; batch *= 2) found.push_back(batch);
  return found;
}

class Chooser {
 public:
  Chooser(RunSizer& sizer, const SizedRun& base, const ChooseOptions& options)
      : sizer_(sizer), base_(base), options_(options) {}

  void look_at_axes() {
    for (SweptRun& one : sweep(sizer_, base_.candidate, options_.axes)) {
      if (one.run) ++num_sized_;
      if (one.fits()) fitting_.push_back(std::move(*one.run));
    }
  }

  void look_at_usual() {
    for (const std::string& strategy : strategies_for(sizer_, base_.world()))
      for (const char* level : {"none", "light", "block"})
        look_at_settings(base_.candidate.with(
            {fmt::format("distributed.fsdp.sharding_strategy={}", strategy),
             fmt::format("distributed.fsdp.activation_checkpointing={}", level)}));
  }

  std::optional<Chosen> result() {
    const SizedRun* best = best_of(fitting_);
    if (!best) return std::nullopt;
    Chosen chosen{sizer_.size(best->candidate), num_sized_, fitting_.size()};
    sizer_.add_speed(chosen.run);
    return chosen;
  }

 private:
  // What the rules refuse is no choice: groups of a size that does not divide the ranks, more rows
  // than a kernel takes.
  void look_at_settings(const Candidate& candidate) {
    try {
      look_at_batches(sizer_.size(candidate));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::config) throw;
    }
  }

  // More rows need more memory: the first size that does not fit is the last one looked at.
  void look_at_batches(const SizedRun& settings) {
    const std::int64_t samples = base_.samples_per_rank();
    for (const std::int64_t batch : options_.any_samples ? doublings(1 << 16) : divisors(samples)) {
      SizedRun run = sizer_.resized(settings, batch, options_.any_samples ? 1 : samples / batch);
      ++num_sized_;
      if (!run.fits()) return;
      sizer_.add_speed(run);
      fitting_.push_back(std::move(run));
    }
  }

  RunSizer& sizer_;
  const SizedRun& base_;
  const ChooseOptions& options_;
  std::vector<SizedRun> fitting_;
  std::size_t num_sized_ = 0;
};

}  // namespace

const SizedRun* best_of(const std::vector<SizedRun>& runs) {
  double fastest = 0;
  for (const SizedRun& run : runs) fastest = std::max(fastest, run.speed->tokens_per_s);
  const SizedRun* best = nullptr;
  for (const SizedRun& run : runs) {
    if (run.speed->tokens_per_s < kAlike * fastest) continue;
    if (!best || run.needed_bytes() < best->needed_bytes()) best = &run;
  }
  return best;
}

std::optional<Chosen> choose(RunSizer& sizer, const SizedRun& base, const ChooseOptions& options) {
  Chooser chooser(sizer, base, options);
  if (options.axes.empty())
    chooser.look_at_usual();
  else
    chooser.look_at_axes();
  return chooser.result();
}

}  // namespace wmtp::run
