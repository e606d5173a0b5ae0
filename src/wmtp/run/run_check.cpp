#include "wmtp/run/run_check.h"
#include "wmtp/comm/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "wmtp/config/derived.h"
#include "wmtp/data/first_look.h"
#include "wmtp/data/index/source_file.h"
#include "wmtp/data/options_from_config.h"
#include "wmtp/model/presets.h"
#include "wmtp/models/open_model.h"
#include "wmtp/models/remote/model_copy.h"
#include "wmtp/models/trainable.h"
#include "wmtp/run/checkpoints/state_tensors.h"
#include "wmtp/run/data/run_data.h"

namespace wmtp::run {
namespace {

constexpr std::int64_t kAnyMemory = std::numeric_limits<std::int64_t>::max() / 2;

std::uint64_t samples_per_step(const config::Config& config, const RunContext& context) {
  return static_cast<std::uint64_t>(config.training.batch_size *
                                    config::accumulation_steps(config, context.world) *
                                    context.world);
}

// Weights that are drawn, and no other model.
bool needs_no_files(const config::Config& config) {
  const config::Models& models = config.models;
  return models.policy.init == config::WeightInit::random &&
         model::find_preset(models.policy.path.text) && !models.value_model.path &&
         !models.value_model.checkpoint_path && !config.training.value.init_from &&
         config.experiment.stage != config::Stage::rho1;
}

class RunChecker {
 public:
  RunChecker(const config::Config& config, const RunContext& context)
      : config_(config), context_(context) {
    context_.rank = 1;  // has nothing to say
    context_.local_rank = 1 % context_.local_world;
    const config::Training& training = config.training;
    const std::int64_t sequences = config.data_sampling.use_pairwise ? 2 : 1;
    found_.outlook.tokens_per_step =
        samples_per_step(config, context) *
        static_cast<std::uint64_t>(config.dataset.max_length * sequences);
    if (training.max_steps) found_.outlook.steps = static_cast<std::uint64_t>(*training.max_steps);
  }

  RunCheck without_files() {
    if (needs_no_files(config_) && !plan(true)) note({}, *plan_error_);
    found_.outlook.memory_bytes.reset();  // of a machine that is not known
    return std::move(found_);
  }

  RunCheck check(bool other_machine) {
    const bool planned = plan(other_machine);
    if (!planned) look_at_models();
    look_at_data(open_tokenizer() && planned);
    return std::move(found_);
  }

 private:
  // False, and one problem more, where `work` throws an Error.
  template <class Work>
  bool passes(const std::string& key, Work&& work) {
    try {
      work();
      return true;
    } catch (const Error& error) {
      note(key, error);
      return false;
    }
  }

  void note(const std::string& key, const Error& error) {
    const bool memory = is_too_large(error);
    found_.problems.push_back({error.kind(), key, error.fact(), error.hint(), memory});
  }

  bool plan(bool other_machine) {
    try {
      plan_ = plan_model(config_, context_);
    } catch (const Error& error) {
      found_.outlook.fits = !is_too_large(error);
      if (found_.outlook.fits || !other_machine) {
        plan_error_ = error;
        return false;
      }
      RunContext larger = context_;
      larger.memory_bytes = kAnyMemory;
      plan_ = plan_model(config_, larger);
    }
    found_.outlook.trainable =
        models::trainable_parameters(training::trainable_units(plan_->assemble));
    found_.outlook.memory_bytes = plan_->memory.needed_bytes();
    found_.outlook.memory_table = plan_->memory.table();
    found_.outlook.checkpoint_bytes =
        state_bytes(plan_->assemble, !config::saves_trained_only(config_));
    return true;
  }

  // Planning ends at the first that fails: here each by itself, so that all are named.
  void look_at_models() {
    const config::Models& models = config_.models;
    const bool critic = config_.experiment.stage == config::Stage::critic;
    const bool rho1 = config_.experiment.stage == config::Stage::rho1;
    const bool reads_values = config_.experiment.stage == config::Stage::verifiable &&
                              config_.training.value.source == config::ValueSource::model &&
                              config_.training.td.control != config::TdControl::random;
    const std::size_t before = found_.problems.size();
    look_at_model("models.policy.path", models.policy.path, {});
    if (critic) look_at_model("models.value_model.path", models.value_model.path, {});
    if (reads_values)
      look_at_model("models.value_model.checkpoint_path", models.value_model.checkpoint_path,
                    models.value_model.base_model_path);
    if (rho1) {
      look_at_model("models.reference.path", models.reference.path, {});
      look_at_model("models.reference.checkpoint_path", models.reference.checkpoint_path,
                    models.reference.base_model_path);
    }
    if (found_.problems.size() == before) note({}, *plan_error_);
  }

  void look_at_model(const std::string& key, const std::optional<config::ModelLocation>& place,
                     const std::optional<config::ModelLocation>& base) {
    if (!place || model::find_preset(place->text)) return;
    passes(key, [&] {
      const models::OpenedModel opened =
          models::open_model(place->text, context_.environment, base ? base->text : std::string());
      if (key == "models.policy.path") policy_tokenizer_ = opened.folder.tokenizer_folder;
    });
  }

  bool open_tokenizer() {
    const auto& own = config_.models.policy.tokenizer_path;
    return passes(own ? "models.policy.tokenizer_path" : "models.policy.path",
                  [&] {
                    const std::filesystem::path folder =
                        plan_ ? plan_->tokenizer_folder
                        : own ? models::locate_tokenizer(own->text, context_.environment)
                              : policy_tokenizer_;
                    if (folder.empty() && !plan_)
                      return;  // its model could not be opened, which is told
                    tokenizer_ = tokenizer::load_tokenizer(tokenizer_place(config_, folder));
                  }) &&
           tokenizer_;
  }

  void look_at_data(bool planned) {
    data::AboutRows rows;
    const std::size_t before = found_.problems.size();
    passes("dataset.train", [&] {
      rows =
          data::look_at_files(data::dataset_options(config_, data::Split::train), tokenizer_.get());
    });
    if (config_.dataset.validation)
      passes("dataset.validation", [&] {
        data::look_at_files(data::dataset_options(config_, data::Split::validation),
                            tokenizer_.get());
      });
    const bool sound = found_.problems.size() == before;
    if (planned && sound) passes({}, [&] { count_samples(rows); });
  }

  // By what sampling draws where the data has been indexed and tokenized, else by its lines.
  void count_samples(const data::AboutRows& about) {
    const auto group = comm::make_single("validate", c10::Device(c10::DeviceType::CPU));
    RunContext context = context_;
    context.rank = context.local_rank = 0;
    try {
      const RunData data(config_, context, *plan_, *group, /*look_only=*/true);
      const data::Corpus& corpus = data.train().corpus();
      const bool is_text = corpus.format() == data::Format::text;
      found_.outlook.rows = is_text ? data.train().size() : corpus.num_rows();
      set_steps(data.train().size());
    } catch (const data::MissingCache&) {
      if (!config_.dataset.auto_cache) throw;
      found_.outlook.rows = about;
      found_.outlook.about = true;
      if (const auto samples = about_samples(about)) set_steps(*samples);
    }
  }

  // How many pairs there are only the index tells.
  data::AboutRows about_samples(const data::AboutRows& rows) const {
    const config::DataSampling& sampling = config_.data_sampling;
    if (!sampling.n_samples) return sampling.use_pairwise ? std::nullopt : rows;
    const auto wanted = static_cast<std::uint64_t>(*sampling.n_samples);
    return rows && !sampling.use_pairwise ? std::min(*rows, wanted) : wanted;
  }

  void set_steps(std::uint64_t samples) {
    RunOutlook& outlook = found_.outlook;
    outlook.counted = true;
    const auto steps = data::steps_left(data::epochs_in_millionths(config_.training.n_epochs),
                                        samples, samples_per_step(config_, context_));
    const auto most = config_.training.max_steps;
    outlook.steps = most ? std::min(steps, static_cast<std::uint64_t>(*most)) : steps;
  }

  const config::Config& config_;
  RunContext context_;
  RunCheck found_;
  std::optional<ModelPlan> plan_;
  std::optional<Error> plan_error_;
  std::filesystem::path policy_tokenizer_;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
};

}  // namespace

RunCheck check_run(const config::Config& config, const RunContext& context, bool other_machine) {
  return RunChecker(config, context).check(other_machine);
}

RunCheck check_without_files(const config::Config& config, const RunContext& context) {
  config::Config drawn = config;
  drawn.models.policy.tokenizer_path.reset();
  return RunChecker(drawn, context).without_files();
}

}  // namespace wmtp::run
