// Small models with random weights and three packed documents, run through our forward and
// backward: what the tests of gradients and of LoRA share.
#pragma once
#include <optional>

#include "model/reference_model.h"
#include "wmtp/model/local_weights.h"
#include "wmtp/model/transformer.h"

namespace wmtp::test {

struct Case {
  std::string name;
  model::ModelConfig config;
};
// Four shapes: MTP with GQA, plain, Qwen3-like (tied, q/k norm), heads without a trunk.
std::vector<Case> cases();

// Dropout of a run: sample ids per document.
struct DropoutKey {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::vector<std::uint64_t> sample_ids;
};

struct Problem {
  model::ModelConfig config;
  std::optional<model::LoraConfig> lora = {};
  std::optional<DropoutKey> dropout = {};  // absent: evaluation
  ReferenceInput input = {};
  std::map<std::string, Tensor> params = {};  // fp64, adapters included

  std::vector<layout::UnitSpec> units() const;
};

// Three documents; the first tokens of each are prompt, so heads have different numbers of rows.
// All weights random and not zero, the adapters' B included.
Problem make_problem(const model::ModelConfig& config,
                     const std::optional<model::LoraConfig>& lora = {});
// The same with document d alone.
Problem one_document(const Problem& problem, std::size_t d);

class ModelRun {
 public:
  // BORROWS problem.
  ModelRun(const Problem& problem, at::ScalarType dtype, model::Recompute level);

  // Sum of scale * nll; gradients into weights().
  double loss();
  Tensor logits(int head);

  model::LocalWeights& weights() { return weights_; }
  model::Transformer& model() { return model_; }
  model::Batch make_batch() const;

 private:
  const Problem& problem_;
  at::ScalarType dtype_;
  model::LocalWeights weights_;
  model::Transformer model_;
};

// How far from the exact value, relatively, what has gone through the model in `dtype` may be: each
// of n roundings is off by up to u, to either side, so that they add up to u sqrt(n). n are the
// additions of all sums on a way through the model and back, twice as many with adapters beside the
// projections; what is left of sums whose terms cancel may be an eighth of them.
double rounding_bound(at::ScalarType dtype, const Problem& problem);

// Norm of the difference over the norm of `want`.
double relative_error(const Tensor& got, const Tensor& want);

}  // namespace wmtp::test
