// The configuration as the program reads it: `config.training.learning_rate`. Load it with load.h;
// values that follow from several keys (accumulation steps, dtypes, names) are in derived.h.
#pragma once
#include "wmtp/config/checkpoint.h"
#include "wmtp/config/dataset.h"
#include "wmtp/config/experiment.h"
#include "wmtp/config/runtime.h"
#include "wmtp/config/tracking.h"
#include "wmtp/config/training.h"

namespace wmtp::config {

struct Config {
  Experiment experiment;
  Models models;
  Dataset dataset;
  DataSampling data_sampling;
  Training training;
  Checkpoint checkpoint;
  Distributed distributed;
  Runtime runtime;
  Mlflow mlflow;
  Tracking tracking;
  Storage storage;
  Logging logging;
};

}  // namespace wmtp::config
