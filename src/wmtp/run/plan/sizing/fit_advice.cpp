#include "wmtp/run/plan/sizing/fit_advice.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/config/derived.h"
#include "wmtp/run/plan/from_config.h"

namespace wmtp::run {
namespace {

constexpr int kMostRanksAdvised = 4096;
constexpr std::int64_t kShortestRows = 128;
constexpr const char* kBlock = "distributed.fsdp.activation_checkpointing=block";
constexpr const char* kFullShard = "distributed.fsdp.sharding_strategy=FULL_SHARD";

class Adviser {
 public:
  Adviser(RunSizer& sizer, const SizedRun& run) : sizer_(sizer), run_(run) {}

  FitAdvice advice() {
    list_changes();
    combine();
    look_for_ranks();
    return std::move(advice_);
  }

 private:
  // Nothing where the rules refuse it.
  std::optional<SizedRun> sized(const Candidate& candidate) {
    try {
      return sizer_.size(candidate);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::config) throw;
      return std::nullopt;
    }
  }

  // Returns whether it fits.
  bool propose(std::vector<std::string> overrides, bool changes_result) {
    const auto changed = sized(run_.candidate.with(overrides));
    if (!changed || changed->needed_bytes() >= run_.needed_bytes()) return false;
    advice_.changes.push_back(
        {std::move(overrides), changed->needed_bytes(), changed->fits(), changes_result});
    return changed->fits();
  }

  void list_changes() {
    const config::Config& config = run_.config();
    const config::Fsdp& fsdp = config.distributed.fsdp;
    if (run_.recompute() != config::Recompute::block) propose({kBlock}, false);
    propose_batch();
    if (run_.world() > 1) propose({kFullShard}, false);
    if (fsdp.no_sync) propose({"distributed.fsdp.no_sync=false"}, false);
    if (sizer_.place().device.is_cuda()) propose({"distributed.fsdp.cpu_offload=true"}, false);
    if (config::compute_dtypes(fsdp).param == config::DType::fp32)
      propose({"distributed.fsdp.param_dtype=bf16"}, true);
    const optim::Recipe now = adamw_settings(config).recipe;
    for (const optim::Recipe recipe : optim::kRecipes)  // in the order of what they save
      propose({fmt::format("training.optimizer.precision={}", optim::name_of(recipe))},
              recipe != now);
    if (!config.training.use_lora) propose({"training.use_lora=true"}, true);
    propose_quantize();
    propose_length();
  }

  // The largest micro-batch that fits with the same samples of a step, else one row.
  void propose_batch() {
    const std::int64_t samples = run_.samples_per_rank();
    std::int64_t batch = sizer_.largest_batch(run_, run_.batch_size()).value_or(1);
    while (samples % batch != 0) --batch;
    if (batch < run_.batch_size()) propose(batch_overrides(run_, batch), false);
  }

  // Refused where it cannot run.
  void propose_quantize() {
    const config::Config& config = run_.config();
    if (config::base_quantize(config) != config::Quantize::none) return;
    std::vector<std::string> overrides{quantize_override(run_, config::Quantize::nf4)};
    if (!config.training.use_lora) overrides.emplace_back("training.use_lora=true");
    propose(std::move(overrides), true);
  }

  // The longest of halves that fits, else the shortest.
  void propose_length() {
    const std::int64_t now = run_.config().dataset.max_length;
    for (std::int64_t length = now / 2; length >= kShortestRows; length /= 2) {
      std::vector<std::string> overrides{fmt::format("dataset.max_length={}", length)};
      const auto shorter = sized(run_.candidate.with(overrides));
      if (!shorter || (!shorter->fits() && length / 2 >= kShortestRows)) continue;
      propose(std::move(overrides), true);
      return;
    }
  }

  // Makes them the advice where they fit together.
  bool fits_with(const std::vector<bool>& chosen) {
    std::vector<std::string> overrides;
    for (std::size_t c = 0; c < chosen.size(); ++c)
      if (chosen[c])
        for (const std::string& one : advice_.changes[c].overrides) overrides.push_back(one);
    const auto changed = sized(run_.candidate.with(overrides));
    if (!changed || !changed->fits()) return false;
    advice_.overrides = std::move(overrides);
    advice_.needed_bytes = changed->needed_bytes();
    return true;
  }

  // One more at a time until it fits; then each that is not needed is left out again.
  void combine() {
    std::vector<bool> chosen(advice_.changes.size(), false);
    bool fits = false;
    for (std::size_t c = 0; c < chosen.size() && !fits; ++c) {
      chosen[c] = true;
      fits = fits_with(chosen);
    }
    if (!fits) return;
    for (std::size_t c = chosen.size(); c-- > 0;) {
      if (!chosen[c]) continue;
      chosen[c] = false;
      if (!fits_with(chosen)) chosen[c] = true;
    }
  }

  // As many times the ranks as it takes, all of them sharding. The batch grows with them unless
  // training.global_batch_size holds it.
  void look_for_ranks() {
    for (int world = 2 * run_.world(); world <= kMostRanksAdvised; world *= 2) {
      for (const std::vector<std::string>& overrides :
           {std::vector<std::string>{kFullShard}, std::vector<std::string>{kFullShard, kBlock}}) {
        Candidate candidate = run_.candidate.with(overrides);
        candidate.world = world;
        const auto larger = sized(candidate);
        if (!larger || !larger->fits()) continue;
        advice_.world = world;
        advice_.world_overrides = overrides;
        return;
      }
    }
  }

  RunSizer& sizer_;
  const SizedRun& run_;
  FitAdvice advice_;
};

}  // namespace

FitAdvice advise(RunSizer& sizer, const SizedRun& run) {
  return Adviser(sizer, run).advice();
}

}  // namespace wmtp::run
