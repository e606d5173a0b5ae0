// The model once more, as plainly as ATen's differentiable operators allow: the oracle for our
// hand-written forward and backward. One document at a time, explicit softmax, autograd.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "wmtp/kernels/float8.h"
#include "wmtp/model/model_config.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::test {

struct ReferenceInput {
  std::vector<std::int32_t> tokens, doc_start;
  std::vector<std::vector<std::int64_t>> rows, targets;         // per head
  std::vector<Tensor> scales;                                   // per head, per row
  std::function<double(const std::string& module)> lora_scale;  // with lora_A and lora_B
  // What an adapter's input is multiplied by, [tokens of the document, features]; null: nothing.
  std::function<Tensor(const std::string& module, std::size_t document, std::int64_t features)>
      lora_mask;
  // Of the matrices of blocks, straight through: the forward has the quantised operands, the
  // backward is that of a linear map with its own quantised ones. REQUIRES one document.
  kernels::Float8Recipe float8 = kernels::Float8Recipe::off;
};

struct ReferenceResult {
  Tensor loss;                 // sum over heads and rows of scale * nll
  std::vector<Tensor> nll;     // per head, per row
  std::vector<Tensor> logits;  // per head, per row
  std::map<std::string, Tensor> grads;
};

// `params` by wmtp name, in the dtype to compute in.
ReferenceResult reference_run(const model::ModelConfig& config,
                              std::map<std::string, Tensor> params, const ReferenceInput& input);

}  // namespace wmtp::test
