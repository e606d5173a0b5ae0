// The one place that reads the sections `dataset` and `data_sampling` for this module.
#pragma once
#include "wmtp/config/config.h"
#include "wmtp/data/options.h"
#include "wmtp/data/plan/dataset.h"
#include "wmtp/data/plan/loader.h"

namespace wmtp::data {

// REQUIRES a validation set where the split is validation.
DatasetOptions dataset_options(const config::Config& config, Split split);

// `cuda`: what pack_multiple "auto" means. `num_heads` = H.
CollateOptions collate_options(const config::Dataset& dataset, bool cuda, int num_heads);

LoaderOptions loader_options(const config::Dataset& dataset, const CollateOptions& collate);

}  // namespace wmtp::data
