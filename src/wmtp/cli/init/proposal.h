// What `wmtp init` proposes for a stage, a model and data: each value with the fact it follows
// from. Pure: what is on disk was looked at before.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/config/commented.h"
#include "wmtp/config/config.h"
#include "wmtp/data/survey.h"

namespace wmtp::cli {

struct InitModel {
  std::string path;            // as models.policy.path takes it
  std::string tokenizer_path;  // empty: the model's own
  std::string tokenizer_fact;  // why that one
  bool drawn = false;          // weights are drawn at random
  std::string init_fact;       // why, or that there are some
  std::int64_t positions = 0;
  bool has_chat_tokens = false;  // <|im_start|> and <|im_end|>
};

struct InitInputs {
  config::Stage stage = config::Stage::baseline;
  std::string name;
  InitModel model;
  std::vector<std::string> train, validation;
  std::string validation_fact;    // why those; empty: the user named them
  std::string critic, reference;  // models, where given
  data::Survey survey;
};

// Samples of an optimizer step, and what is known of them.
struct BatchChoice {
  std::int64_t batch_size = 1, accumulation = 1;
  std::string batch_fact, steps_fact;
};

// Error data, or config for a form of data that the stage cannot read, with what would help.
void require_suitable_data(const InitInputs& inputs);

// How rows become tokens.
config::PromptTemplate proposed_template(data::Format format, bool has_chat_tokens);
struct LengthChoice {
  std::int64_t max_length = 0;
  std::string fact;
};
LengthChoice proposed_length(const data::Survey& survey, std::int64_t positions);

// Samples of an epoch after the proposed sampling, where the survey tells.
std::optional<std::int64_t> about_samples(const InitInputs& inputs, std::int64_t max_length);

// Before memory is looked at: at most 8 sequences and 16384 tokens at a time, 16 samples a step,
// but ten steps an epoch where the data has them.
BatchChoice proposed_batch(const InitInputs& inputs, std::int64_t max_length);

// The whole configuration. REQUIRES data that require_suitable_data passed.
std::vector<config::CommentedKey> proposed_keys(const InitInputs& inputs, const BatchChoice& batch);
// Of it, dataset and data_sampling.
std::vector<config::CommentedKey> proposed_data_keys(const InitInputs& inputs);

bool uses_pairs(const InitInputs& inputs);  // a sample is a pair of rows
// Share of correct rows that is drawn; nothing: labels do not count.
std::optional<double> drawn_ratio(const InitInputs& inputs);

}  // namespace wmtp::cli
