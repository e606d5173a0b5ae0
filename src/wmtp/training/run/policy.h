// From a configuration to the model that a run trains: its shape, what of it learns, how it is
// spread over ranks, and where its weights come from.
#pragma once
#include <filesystem>
#include <string>

#include "wmtp/checkpoint/model_folder.h"
#include "wmtp/config/config.h"
#include "wmtp/training/assemble.h"
#include "wmtp/training/model_source.h"

namespace wmtp::training {

// Where a run takes place.
struct RunSite {
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  int rank = 0, world = 1;
  std::int64_t memory_bytes = 0;  // that a rank may use
  checkpoint::Environment environment;
};

struct PolicyPlan {
  AssembleOptions assemble;  // without the objective
  parallel::Fill fill;       // weights of every trainable unit, value head and adapters included
  std::filesystem::path tokenizer_folder;  // empty: the model brings none and none is named
  std::string base_model;                  // as the user named it
  bool adapters_suffice = false;  // base_model holds all that an adapter of this run does not
  std::string recompute_reason;   // what `auto` chose, or empty
};

// Error config for shapes that contradict each other, a model that does not fit (with the plan's
// table), a critic without a trunk. Reads headers only.
PolicyPlan plan_policy(const config::Config& config, const RunSite& site);

// Compute dtype of models on that device: the CPU computes in fp32 whatever is set.
DType compute_dtype(config::DType wanted, c10::Device device);

}  // namespace wmtp::training
