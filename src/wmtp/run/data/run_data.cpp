#include "wmtp/run/data/run_data.h"

#include <fmt/format.h>

#include "wmtp/config/derived.h"
#include "wmtp/core/error.h"
#include "wmtp/data/options_from_config.h"
#include "wmtp/run/data/file_order.h"

namespace wmtp::run {

const std::filesystem::path& tokenizer_place(const config::Config& config,
                                             const std::filesystem::path& folder) {
  if (folder.empty())
    throw Error(ErrorKind::config, "train",
                fmt::format("{} brings no tokenizer", config.models.policy.path.text),
                "set models.policy.tokenizer_path");
  return folder;
}

RunData::RunData(const config::Config& config, const RunContext& context, const ModelPlan& policy,
                 comm::Communicator& group, bool look_only)
    : config_(config),
      context_(context),
      num_heads_(static_cast<int>(policy.assemble.model.n_future)),
      look_only_(look_only),
      tokenizer_folder_(tokenizer_place(config, policy.tokenizer_folder)),
      tokenizer_(tokenizer::load_tokenizer(tokenizer_folder_)),
      shape_{context.world, context.rank, static_cast<std::uint32_t>(config.training.batch_size),
             static_cast<std::uint32_t>(config::accumulation_steps(config, context.world))},
      num_epochs_millionths_(data::epochs_in_millionths(config.training.n_epochs)) {
  const std::int64_t vocab = policy.assemble.model.vocab_size;
  if (tokenizer_->vocab_size() > vocab)
    throw Error(
        ErrorKind::config, "train",
        fmt::format("the tokenizer has {} tokens, the model {}: {}", tokenizer_->vocab_size(),
                    vocab, tokenizer_folder_.string()),
        "is it the model's own tokenizer? without models.policy.tokenizer_path that one is taken");
  if (config.dataset.max_length > policy.assemble.model.max_positions)
    throw Error(ErrorKind::config, "train",
                fmt::format("dataset.max_length is {}, the model has {} positions",
                            config.dataset.max_length, policy.assemble.model.max_positions));
  if (context.first_of_node()) open_sets(/*may_build=*/true);
  group.barrier("data");
  if (!context.first_of_node()) open_sets(/*may_build=*/false);
}

void RunData::open_sets(bool may_build) {
  train_ = open(data::Split::train, may_build);
  if (steps_from(train_->cursor_at(0, 0)) == 0)
    throw Error(ErrorKind::config, "train",
                fmt::format("{} samples x {} epochs are no step at all", train_->size(),
                            config_.training.n_epochs));
  if (!config_.dataset.validation) return;
  validation_ = open(data::Split::validation, may_build);
}

std::shared_ptr<const data::Dataset> RunData::open(data::Split split, bool may_build) const {
  data::DatasetOptions options = data::dataset_options(config_, split);
  options.cache.look_only = look_only_;
  if (!may_build || look_only_) options.cache.auto_cache = false;
  const auto corpus = std::make_shared<const data::Corpus>(
      options, *tokenizer_, config_.data_sampling.use_length_balanced);
  const config::Stage stage = config_.experiment.stage;
  if (stage == config::Stage::critic || stage == config::Stage::verifiable)
    corpus->require_labels(fmt::format("stage {}", config::name_of(stage)));
  return std::make_shared<const data::Dataset>(corpus, config_.data_sampling, split);
}

data::LoaderOptions RunData::loader_options() const {
  return data::loader_options(
      config_.dataset,
      data::collate_options(config_.dataset, context_.device.is_cuda(), num_heads_));
}

std::unique_ptr<data::Loader> RunData::train_loader(const data::Cursor& at) const {
  data::TrainPlanner::Run run;
  run.shape = shape_;
  run.collate = loader_options().collate;
  run.num_epochs_millionths = num_epochs_millionths_;
  run.epoch = at.epoch;
  run.samples_taken = at.samples_taken;
  return std::make_unique<data::Loader>(std::make_unique<data::TrainPlanner>(train_, run),
                                        loader_options());
}

std::unique_ptr<data::Loader> RunData::validation_loader() const {
  return std::make_unique<data::Loader>(
      std::make_unique<data::ValidationPlanner>(validation_, shape_, num_heads_), loader_options());
}

std::int64_t RunData::num_validation_batches() const {
  const auto world = static_cast<std::uint64_t>(shape_.world_size);
  const std::uint64_t largest_share = (validation_->size() + world - 1) / world;
  return static_cast<std::int64_t>((largest_share + shape_.batch_size - 1) / shape_.batch_size);
}

std::unique_ptr<data::Loader> RunData::file_order_loader() const {
  return std::make_unique<data::Loader>(
      std::make_unique<FileOrder>(*train_, num_begun_epochs(), shape_, num_heads_),
      loader_options());
}

std::uint64_t RunData::steps_from(const data::Cursor& at) const {
  return data::steps_left(num_epochs_millionths_, train_->size(), shape_.samples_per_step(),
                          at.epoch, at.samples_taken);
}

data::Cursor RunData::cursor_of_step(std::uint64_t step) const {
  const std::uint64_t width = shape_.samples_per_step();
  const std::uint64_t steps_per_epoch = (train_->size() + width - 1) / width;
  return train_->cursor_at(step / steps_per_epoch, step % steps_per_epoch * width);
}

}  // namespace wmtp::run
