// What a tracking server gets to know of a run: params that people compare, tags, inputs. Nothing
// here holds a credential: keys are on a list, values that came from the environment stand as their
// references, paths appear as sources only, and every text goes through a Redactor.
#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "wmtp/config/load.h"
#include "wmtp/core/json.h"
#include "wmtp/model/model_config.h"
#include "wmtp/run/report/redaction.h"

namespace wmtp::run {

using NamedTexts = std::vector<std::pair<std::string, std::string>>;

// What is known before the first step. BORROWS resolved.
struct TrackedRun {
  const config::ResolvedConfig& resolved;
  OrderedJson environment = {};  // environment.json with `trainable` and `data`
  model::ModelConfig model = {};
  std::string train_digest = {}, validation_digest = {};  // of the content; empty: no such set
};

// How the program was started.
struct TrackedStart {
  std::vector<std::string> words = {};  // the command line without the program
  std::filesystem::path config_file = {};
  std::string run_uid = {};
  std::string user = {};
  bool is_job = false;  // of a batch system
};

// The name that the effective user id has on this machine; "uid 1000" where it has none. Not $USER,
// which containers and sudo leave as somebody else's.
std::string process_user();

// Keys of the configuration that are set, then model.*, data.* and distributed.world_size.
NamedTexts tracked_params(const TrackedRun& run, const Redactor& redact);

// mlflow.* as MLflow's own clients name them, and wmtp.*; those without a value are left out. The
// models that a run starts from are tags: a model among MLflow's inputs is the id of one that was
// logged there.
NamedTexts tracked_tags(const TrackedRun& run, const TrackedStart& start, const Redactor& redact);

// The body of MLflow's log-inputs but for the run: {"datasets": [...]}.
OrderedJson tracked_inputs(const TrackedRun& run, const Redactor& redact);

}  // namespace wmtp::run
