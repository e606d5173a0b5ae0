// N tokens of a micro-batch, M of them with a target of a head.
#include "wmtp/run/stages/stage_scorer.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/checkpoint/format/names.h"
#include "wmtp/config/derived.h"
#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/run/stages/scored_weights.h"

namespace wmtp::run {
namespace {

using config::Stage;

// Passes of Runtime::begin_evaluation that acquire alike.
constexpr int kViewPass = 2, kLossPass = 3;

constexpr unsigned kFileShift = 40;  // of data::Corpus::sample_id

std::vector<float> host_numbers(const Tensor& values) {
  const Tensor host = values.to(at::kCPU, at::kFloat).contiguous();
  return {host.const_data_ptr<float>(), host.const_data_ptr<float>() + host.numel()};
}

bool has_values(const config::Config& config) {
  return config.experiment.stage == Stage::critic ||
         (config.experiment.stage == Stage::verifiable &&
          config.training.td.control != config::TdControl::random);
}

}  // namespace

void require_in_stage(const config::Config& config, const StageScoreOptions& options) {
  const std::string stage(config::name_of(config.experiment.stage));
  if (options.values && !has_values(config))
    refuse_score(config.experiment.stage == Stage::verifiable
                     ? "--values, but with training.td.control: random no values are read"
                     : fmt::format("--values, but stage {} has no value function", stage),
                 "give a critic's configuration, or one of stage verifiable");
  if (options.weights && config.experiment.stage == Stage::critic)
    refuse_score("--weights, but stage critic gives tokens no weights", "ask for --values");
}

StageScorer::StageScorer(const config::Config& config, const RunContext& context,
                         comm::ProcessGroupSession& session, const StageScoreOptions& options)
    : config_(config),
      context_(context),
      session_(session),
      options_(options),
      policy_(plan_model(config, context)),
      data_(config, context, policy_, session.gather_group()),
      signals_(config, context, reads_frozen() ? policy_.frozen : std::nullopt, data_,
               session.gather_group()),
      groups_(parallel::groups_of(session, policy_.assemble.parallel)),
      stage_(config, context, policy_, groups_, !reads_frozen() || signals_.complete()) {
  const int in_model = policy_.predicts ? num_heads() : 0;
  if (options_.num_heads > in_model)
    refuse_score(fmt::format("--heads {}, but the model has {} prediction head{}",
                             options_.num_heads, in_model, in_model == 1 ? "" : "s"));
  if (options_.num_heads == 0) options_.num_heads = in_model;
  auto num_steps = static_cast<std::int64_t>(data_.steps_from(data_.cursor_of_step(0)));
  if (config.training.max_steps) num_steps = std::min(num_steps, *config.training.max_steps);
  if (options_.step && *options_.step > num_steps)
    refuse_score(fmt::format("--step {}, but the run has {} steps", *options_.step, num_steps));
  training::AssembleOptions assemble = policy_.assemble;
  assemble.objective = stage_.objective();
  model_ = std::make_unique<training::TrainableModel>(assemble, groups_);
  if (stage_.frozen()) signals_.follow(*stage_.frozen());
  fill_weights();
}

bool StageScorer::reads_frozen() const {
  const bool for_the_cache =
      !options_.step && config_.experiment.stage == Stage::rho1 && config_.training.signal_cache;
  return policy_.frozen && (options_.weights || options_.values || for_the_cache);
}

bool StageScorer::fills_cache() {
  return stage_.frozen() && config_.training.signal_cache && !options_.step;
}

void StageScorer::fill_weights() {
  if (options_.checkpoint.empty()) return model_->runtime().fill(policy_.fill, policy_.stored_nf4);
  const ScoredWeights scored =
      open_scored_weights({options_.checkpoint, options_.base_model}, policy_, context_.environment,
                          /*with_tracker=*/stage_.ema() != nullptr);
  model_->runtime().fill(scored.fill, scored.stored_nf4);
  if (scored.tracker) stage_.ema()->restore(*scored.tracker);
}

OrderedJson StageScorer::header() const {
  OrderedJson fields{{"type", "header"},
                     {"stage", config::name_of(config_.experiment.stage)},
                     {"order", options_.step ? "step" : "file"}};
  if (options_.step) fields["step"] = *options_.step;
  fields["batch_size"] = config_.training.batch_size;
  fields["ranks"] = context_.world;
  fields["model"] = options_.checkpoint.empty() ? policy_.base_model : options_.checkpoint;
  return fields;
}

StepReader StageScorer::reader(std::unique_ptr<data::Loader> loader,
                               const SignalSource& signals) const {
  return StepReader(std::move(loader), {num_heads(), model_->inv_freq(), /*dropout=*/{}, signals});
}

models::ScoreSummary StageScorer::run(const models::WriteLine& write) {
  if (options_.step) {
    const std::int64_t step = *options_.step - 1;
    StepReader rows =
        reader(data_.train_loader(data_.cursor_of_step(static_cast<std::uint64_t>(step))),
               signals_.train());
    const std::optional<ReadStep> read = rows.next(step);
    WMTP_CHECK(read.has_value(), "a step of the run has rows");
    for (std::size_t i = 0; i < read->input.micro_batches.size(); ++i)
      score_batch(read->input.micro_batches[i], i, write);
    return summary_;
  }
  StepReader rows = reader(data_.file_order_loader(), signals_.train());
  while (const auto next = rows.next_evaluation()) score_batch(next->batch, {}, write);
  if (fills_cache()) compute_validation_signals();
  return summary_;
}

training::TokenMarks StageScorer::marks_of(const training::DeviceBatch& batch) {
  if (!options_.weights && !options_.values) return {};
  model_->runtime().begin_evaluation(kViewPass);
  return model_->objective().view(batch);
}

std::vector<std::vector<float>> StageScorer::head_losses(const training::DeviceBatch& batch) {
  std::vector<std::vector<float>> losses;
  if (options_.num_heads == 0) return losses;
  model_->runtime().begin_evaluation(kLossPass);
  model::Transformer& policy = model_->reader();
  const model::TrunkPass trunk = policy.forward_trunk(batch.model);
  // Also a head without a target here: ranks that share weights read them together.
  for (int head = 0; head < options_.num_heads; ++head)
    losses.push_back(host_numbers(
        policy.nll(trunk, policy.forward_head(trunk, batch.model, head), batch.model)));
  return losses;
}

Tensor StageScorer::signal_of(const training::DeviceBatch& batch) {
  const bool values = config_.experiment.stage == Stage::verifiable;
  const Tensor& cached_N = values ? batch.value_N : batch.ref_nll_N;
  if (cached_N.defined()) return cached_N;
  return values ? stage_.frozen()->values(batch) : stage_.frozen()->next_token_nll(batch);
}

void StageScorer::compute_validation_signals() {
  if (!data_.validation()) return;
  StepReader rows = reader(data_.validation_loader(), signals_.validation());
  while (const auto next = rows.next_evaluation()) {
    host_numbers(signal_of(next->batch));  // the device has then computed it
    signals_.write(signals_.mark());
  }
}

std::uint64_t StageScorer::row_of(std::uint64_t sample_id) const {
  const data::Corpus& corpus = data_.train().corpus();
  if (corpus.format() == data::Format::text) return sample_id;
  const std::uint64_t in_file = sample_id & ((std::uint64_t{1} << kFileShift) - 1);
  return corpus.files().at(sample_id >> kFileShift)->first_row + in_file;
}

namespace {

// Numbers of tokens, or of a head's targets in order, handed out to the places of a row.
struct BatchNumbers {
  const training::DeviceBatch& batch;
  std::vector<std::vector<float>> nll;        // by head
  std::vector<float> values_N;                // empty: none
  std::vector<std::vector<float>> weights_N;  // by head, at the predicted token; empty: 1
  std::vector<std::size_t> taken;             // of nll

  template <class Number>
  models::ByTarget by_target(const data::SignalRow& row, const Number& number) const {
    models::ByTarget found(nll.size(), std::vector<std::optional<float>>(row.length));
    for (std::size_t head = 0; head < nll.size(); ++head)
      for (std::size_t i = 0; i + head + 1 < row.length; ++i)
        if (batch.mask[row.begin + i + head + 1])
          found[head][i] = number(head, row.begin + i + head + 1);
    return found;
  }
};

// The weight of every token as a target of each head.
std::vector<std::vector<float>> weights_by_head(const training::TokenMarks& marks,
                                                std::size_t num_heads) {
  std::vector<std::vector<float>> weights;
  for (std::size_t head = 0; head < num_heads; ++head)
    if (!marks.selected_by_head_N.empty())
      weights.push_back(host_numbers(marks.selected_by_head_N[head]));
    else if (marks.weight_N.defined())
      weights.push_back(host_numbers(marks.weight_N));
  return weights;
}

models::ScoredRow scored_row(BatchNumbers& numbers, const data::SignalRow& row,
                             const StageScoreOptions& options) {
  models::ScoredRow scored;
  scored.part = row.part;
  scored.ids = std::span(numbers.batch.tokens).subspan(row.begin, row.length);
  scored.nll = numbers.by_target(row, [&numbers](std::size_t head, std::size_t) {
    return numbers.nll[head].at(numbers.taken[head]++);
  });
  if (options.values) {
    const auto first = numbers.values_N.begin() + static_cast<std::ptrdiff_t>(row.begin);
    scored.values.emplace(first, first + static_cast<std::ptrdiff_t>(row.length));
  }
  if (options.weights)
    scored.weights = numbers.by_target(row, [&numbers](std::size_t head, std::size_t token) {
      return numbers.weights_N.empty() ? 1.0f : numbers.weights_N[head][token];
    });
  return scored;
}

}  // namespace

void StageScorer::score_batch(const training::DeviceBatch& batch,
                              std::optional<std::size_t> micro_batch,
                              const models::WriteLine& write) {
  const training::TokenMarks marks = marks_of(batch);
  if (fills_cache() && !options_.values) signal_of(batch);
  BatchNumbers numbers{batch, {}, {}, {}, {}};
  numbers.nll = head_losses(batch);
  numbers.taken.resize(numbers.nll.size());
  if (options_.values) numbers.values_N = host_numbers(marks.value_N);
  if (options_.weights) numbers.weights_N = weights_by_head(marks, numbers.nll.size());
  std::string message;
  for (const data::SignalRow& row : batch.signal_rows) {
    models::ScoredRow scored = scored_row(numbers, row, options_);
    scored.row = row_of(row.sample_id);
    if (micro_batch) scored.place = models::ScoredRow::Place{*micro_batch, context_.rank};
    models::append_line(message, scored);
  }
  signals_.write(signals_.mark());
  const auto messages = session_.gather_group().gather_bytes(message, 0, "score");
  if (context_.rank == 0) models::put_out(messages, summary_, write);
}

}  // namespace wmtp::run
