// From the words of a configuration to the options of the modules that act on them: the one bridge
// of a run. (data/options_from_config.h is that of the data, models/base_source.h of the model.)
#pragma once
#include <cstdint>
#include <optional>

#include "wmtp/config/config.h"
#include "wmtp/losses/mtp_cross_entropy.h"
#include "wmtp/optim/adamw.h"
#include "wmtp/optim/lr_schedule.h"
#include "wmtp/optim/param_groups.h"
#include "wmtp/parallel/options.h"
#include "wmtp/run/plan/events.h"
#include "wmtp/run/plan/run_context.h"
#include "wmtp/tensor/dtype.h"
#include "wmtp/training/objectives/critic.h"
#include "wmtp/training/objectives/rho1.h"
#include "wmtp/training/objectives/verifiable.h"

namespace wmtp::run {

bool is_critic(const config::Config& config);
// Whether the model carries a value head that learns, and what it is.
bool has_value_head(const config::Config& config);
std::optional<training::ValuePathOptions> value_head_options(const config::Config& config);

// Compute dtype of models on that device: the CPU computes in fp32 whatever is set.
DType compute_dtype(config::DType wanted, c10::Device device);
// A configuration's dtype as tensors have it.
DType tensor_dtype(config::DType dtype);

// Error config where the ranks cannot be put into the groups of HYBRID_SHARD.
parallel::ParallelOptions parallel_options(const config::Config& config, const RunContext& context);
// REQUIRES a level, not `automatic`.
model::Recompute recompute_level(config::Recompute wanted);
optim::ParamGroups param_groups(const config::Config& config);
optim::AdamWSettings adamw_settings(const config::Config& config);
// `plateau_factor`: what `plateau` has come to by now.
optim::Schedule lr_schedule(const config::LrScheduler& wanted, std::int64_t num_steps,
                            double plateau_factor);

losses::Normalization loss_normalization(const config::Training& training);
training::VerifiableOptions verifiable_options(const config::Config& config);
training::Rho1Options rho1_options(const config::Training& training);
training::CriticOptions critic_options(const config::Config& config);

// Validation at its own interval, else whenever a checkpoint is due.
EventInterval validation_interval(const config::Config& config);
EventInterval save_interval(const config::Config& config);

}  // namespace wmtp::run
