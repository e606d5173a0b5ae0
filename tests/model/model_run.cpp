#include "model/model_run.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "wmtp/core/rng.h"
#include "wmtp/model/dropout_mask.h"
#include "wmtp/model/init_weights.h"
#include "wmtp/model/weight_names.h"

namespace wmtp::test {
namespace {

model::ModelConfig small_config() {
  model::ModelConfig config;
  config.dim = 24, config.num_blocks = 4, config.num_heads = 4, config.num_kv_heads = 2,
  config.head_dim = 8;
  config.ffn_dim = 40, config.vocab_size = 37, config.n_future = 3;
  return config;
}

void add_targets(Problem& problem, std::int64_t head, RngStream& rng) {
  const std::vector<int> prompt{3, 0, 2};
  ReferenceInput& input = problem.input;
  std::vector<std::int64_t> rows, targets;
  std::vector<double> scales;
  for (std::size_t d = 0; d < 3; ++d)
    for (std::int64_t i = input.doc_start[d]; i + head < input.doc_start[d + 1]; ++i) {
      if (i + head < input.doc_start[d] + prompt[d]) continue;
      rows.push_back(i);
      targets.push_back(input.tokens[static_cast<std::size_t>(i + head)]);
      scales.push_back(0.1 + unit_uniform(rng.next()[0]));
    }
  input.rows.push_back(rows);
  input.targets.push_back(targets);
  input.scales.push_back(at::tensor(scales, at::kDouble));
}

}  // namespace

std::vector<Case> cases() {
  Case mtp{"mtp", small_config()}, plain{"plain", small_config()}, qwen{"qwen3", small_config()};
  plain.config.n_future = 1, plain.config.num_blocks = 2, plain.config.num_kv_heads = 4;
  qwen.config.n_future = 1, qwen.config.num_blocks = 2, qwen.config.qk_norm = true,
  qwen.config.tied = true;
  qwen.config.head_dim = 16;
  Case headless{"no_trunk", small_config()};
  headless.config.n_future = 2, headless.config.num_blocks = 2, headless.config.num_kv_heads = 1;
  return {mtp, plain, qwen, headless};
}

std::vector<layout::UnitSpec> Problem::units() const {
  return lora ? model::lora_units(config, *lora) : model::model_units(config);
}

Problem make_problem(const model::ModelConfig& config,
                     const std::optional<model::LoraConfig>& lora) {
  Problem problem{.config = config, .lora = lora};
  RngStream rng(11, "gradients_test");
  problem.input.doc_start = {0, 9, 10, 17};
  if (lora)
    problem.input.lora_scale = [lora = *lora](const std::string& module) {
      return lora.scale(*lora.adapter_of(module));
    };
  for (int i = 0; i < 17; ++i)
    problem.input.tokens.push_back(static_cast<std::int32_t>(rng.below(37)));
  for (std::int64_t head = 1; head <= config.n_future; ++head) add_targets(problem, head, rng);
  for (const auto& unit : problem.units())
    for (const auto& param : unit.params) {
      Tensor values = at::empty({param.numel()}, at::kDouble);
      // Names that draw normals everywhere: not only ones in the norms, not only zeros in lora_B.
      model::random_init({"x/" + param.name + "/x", param.shape}, 5, 0.3, 0, values);
      if (param.shape.size() == 1) values.add_(1.0);
      problem.params[param.name] = values.view(param.shape);
    }
  return problem;
}

Problem one_document(const Problem& problem, std::size_t d) {
  Problem one = problem;
  const std::int32_t begin = problem.input.doc_start[d], end = problem.input.doc_start[d + 1];
  one.input.tokens.assign(problem.input.tokens.begin() + begin, problem.input.tokens.begin() + end);
  one.input.doc_start = {0, end - begin};
  if (problem.dropout) one.dropout->sample_ids = {problem.dropout->sample_ids[d]};
  for (std::size_t head = 0; head < problem.input.rows.size(); ++head) {
    std::vector<std::int64_t> rows, targets;
    std::vector<double> scales;
    for (std::size_t j = 0; j < problem.input.rows[head].size(); ++j) {
      const std::int64_t row = problem.input.rows[head][j];
      if (row < begin || row >= end) continue;
      rows.push_back(row - begin);
      targets.push_back(problem.input.targets[head][j]);
      scales.push_back(problem.input.scales[head][static_cast<std::int64_t>(j)].item<double>());
    }
    one.input.rows[head] = rows, one.input.targets[head] = targets;
    one.input.scales[head] = at::tensor(scales, at::kDouble);
  }
  return one;
}

ModelRun::ModelRun(const Problem& problem, at::ScalarType dtype, model::Recompute level)
    : problem_(problem),
      dtype_(dtype),
      weights_(problem.units(), dtype, c10::Device(c10::kCPU), true),
      model_(problem.config, weights_, &weights_,
             {.recompute = level,
              .attention = {},
              .loss_chunk_rows = 5,
              .lora = problem.lora,
              .float8 = problem.input.float8}) {
  for (const auto& [name, value] : problem.params) weights_.param(name).copy_(value);
}

double ModelRun::loss() {
  const model::Batch batch = make_batch();
  model::TrunkPass trunk = model_.forward_trunk(batch);
  double sum = 0;
  for (int head = 0; head < problem_.config.n_future; ++head) {
    const Tensor& scale = problem_.input.scales[static_cast<std::size_t>(head)];
    model::HeadPass pass = model_.forward_head(trunk, batch, head);
    EXPECT_TRUE(model_.nll(trunk, pass, batch).equal(model_.nll(trunk, pass, batch)));
    const Tensor nll = model_.backward_head(trunk, std::move(pass), batch, scale.to(dtype_));
    sum += nll.to(at::kDouble).mul(scale).sum().item<double>();
  }
  model_.backward_trunk(std::move(trunk), batch);
  return sum;
}

Tensor ModelRun::logits(int head) {
  const model::Batch batch = make_batch();
  const model::TrunkPass trunk = model_.forward_trunk(batch);
  return model_.logits(trunk, model_.forward_head(trunk, batch, head));
}

model::Batch ModelRun::make_batch() const {
  const auto& input = problem_.input;
  std::vector<std::int32_t> positions, documents;
  for (std::size_t d = 0; d + 1 < input.doc_start.size(); ++d)
    for (std::int32_t i = input.doc_start[d]; i < input.doc_start[d + 1]; ++i) {
      positions.push_back(i - input.doc_start[d]);
      documents.push_back(static_cast<std::int32_t>(d));
    }
  model::Batch batch;
  batch.tokens_N = at::tensor(input.tokens, at::kInt);
  batch.documents = kernels::make_documents(input.doc_start, c10::Device(c10::kCPU));
  batch.rope =
      kernels::rope_table(at::tensor(positions, at::kInt),
                          at::tensor(model::inv_freq(problem_.config), at::kFloat).to(dtype_));
  for (std::size_t head = 0; head < input.rows.size(); ++head)
    batch.heads.push_back(
        {at::tensor(input.rows[head], at::kInt), at::tensor(input.targets[head], at::kInt)});
  if (!problem_.dropout) return batch;
  const auto& [seed, step, sample_ids] = *problem_.dropout;
  const std::vector<std::string> sites = model::dropout_sites(problem_.config, *problem_.lora);
  if (sites.empty()) return batch;
  batch.dropout = {.seed = seed,
                   .sites = sites,
                   .streams_SD = model::dropout_streams(
                       sites, step, sample_ids, std::ssize(sample_ids), c10::Device(c10::kCPU)),
                   .document_N = at::tensor(documents, at::kInt),
                   .position_N = at::tensor(positions, at::kInt)};
  return batch;
}

double rounding_bound(at::ScalarType dtype, const Problem& problem) {
  const model::ModelConfig& config = problem.config;
  const std::int64_t attention = 3 * config.dim + 2 * config.head_dim * config.num_heads;
  const std::int64_t block = attention + 2 * config.dim + config.ffn_dim;
  const std::int64_t way = config.num_blocks * block * (problem.lora ? 2 : 1) + config.vocab_size;
  const auto additions = static_cast<double>(2 * way);
  return 8 * (dtype == at::kDouble ? 0x1p-53 : 0x1p-24) * std::sqrt(additions);
}

double relative_error(const Tensor& got, const Tensor& want) {
  const double scale = want.norm().item<double>();
  return got.to(at::kDouble).sub(want).norm().item<double>() / std::max(scale, 1e-30);
}

}  // namespace wmtp::test
