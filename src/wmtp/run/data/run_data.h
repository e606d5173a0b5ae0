// The data of a run: tokenizer, training and validation sets, and the loaders over them.
#pragma once
#include <memory>

#include "wmtp/comm/communicator.h"
#include "wmtp/config/config.h"
#include "wmtp/data/plan/dataset.h"
#include "wmtp/data/plan/loader.h"
#include "wmtp/run/plan/model_plan.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::run {

// `folder` itself, where the run's tokenizer lies. Error config where it is empty: the model brings
// none and none is named.
const std::filesystem::path& tokenizer_place(const config::Config& config,
                                             const std::filesystem::path& folder);

class RunData {
 public:
  // COLLECTIVE: the first rank of every node builds indexes and token caches, then the others open
  // them. Where nodes share the folder, one of them builds and the others wait for it. BLOCKS.
  // Error data for a training set without a sample, or for a row without the label that its stage
  // reads; Error config for ids beyond the vocabulary.
  // `look_only`: nothing is built or written; what is not there yet is data::MissingCache.
  RunData(const config::Config& config, const RunContext& context, const ModelPlan& policy,
          comm::Communicator& group, bool look_only = false);

  const tokenizer::Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::filesystem::path& tokenizer_folder() const { return tokenizer_folder_; }
  const data::Dataset& train() const { return *train_; }
  const data::Dataset* validation() const { return validation_.get(); }  // null: none

  data::StepShape shape() const { return shape_; }
  std::uint64_t num_begun_epochs() const { return (num_epochs_millionths_ + 999'999) / 1'000'000; }
  // From `at` to the end of the run.
  std::unique_ptr<data::Loader> train_loader(const data::Cursor& at) const;
  std::unique_ptr<data::Loader> validation_loader() const;
  std::int64_t num_validation_batches() const;  // of each rank
  // The training set once, in file order (file_order.h).
  std::unique_ptr<data::Loader> file_order_loader() const;
  // Optimizer steps from `at` to the end, max_steps aside.
  std::uint64_t steps_from(const data::Cursor& at) const;
  data::Cursor cursor_of_step(std::uint64_t step) const;  // from 0, of a run from its beginning

 private:
  void open_sets(bool may_build);
  std::shared_ptr<const data::Dataset> open(data::Split split, bool may_build) const;
  data::LoaderOptions loader_options() const;

  const config::Config& config_;
  RunContext context_;
  int num_heads_;
  bool look_only_;
  std::filesystem::path tokenizer_folder_;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::shared_ptr<const data::Dataset> train_, validation_;
  data::StepShape shape_;
  std::uint64_t num_epochs_millionths_;
};

}  // namespace wmtp::run
