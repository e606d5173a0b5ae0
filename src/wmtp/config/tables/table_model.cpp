// Rows of `experiment` and `models`.
#include "wmtp/config/tables/table.h"

namespace wmtp::config {
namespace {

using Spellings = std::vector<std::pair<std::string, std::string>>;
const Spellings kDTypeSpellings{{"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}};

void add_policy_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(models.policy.path),
      "The model to train: a Hugging Face folder, a Meta folder (params.json), a wmtp checkpoint, "
      "a .pt file, a "
      "preset name, or an `org/name` of the Hugging Face cache")
      .needed()
      .must_exist();
  add(rows, WMTP_KEY(models.policy.tokenizer_path), "Tokenizer folder or file; null = path")
      .must_exist();
  add(rows, WMTP_KEY(models.policy.name),
      "Model part of checkpoint names; null = the name a run gave it, where path is what that run "
      "left (its `final`, a checkpoint), else the last part of path, lower case, other characters "
      "as _");
  add(rows, WMTP_KEY(models.policy.dtype),
      "Storage of frozen weights, and of exports; null = frozen ones as the files give them, in "
      "the "
      "dtype they are computed with, exports in bf16; trained weights follow "
      "training.optimizer.precision")
      .free()
      .with_aliases(kDTypeSpellings);
  add(rows, WMTP_KEY(models.policy.quantize),
      "nf4: the frozen projection matrices under LoRA are kept in 4.13 bits a weight, quantised "
      "while they are loaded, after rounding to dtype; checkpoints then hold what is trained only");
  add(rows, WMTP_KEY(models.policy.init),
      "random: weights drawn from runtime.seed (a preset or a config.json is enough)");
  add(rows, WMTP_KEY(models.policy.n_future_tokens),
      "Prediction heads; null = as the files say; more than 1 on a plain model adds heads")
      .between(1, 16);
  add(rows, WMTP_KEY(models.policy.add_heads),
      "How added heads start: copies of the last block, or random");
  add(rows, WMTP_KEY(models.policy.params),
      "Shape fields; with init random they override the files, otherwise they must equal them");
}

void add_value_model_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(models.value_model.path),
      "critic: backbone of the value model; null = the policy's trunk")
      .must_exist();
  add(rows, WMTP_KEY(models.value_model.checkpoint_path),
      "verifiable with value.source model: the critic run to take the value model from")
      .must_exist();
  add(rows, WMTP_KEY(models.value_model.base_model_path),
      "Base of a LoRA-only checkpoint or adapter, in place of the one it names")
      .must_exist();
  add(rows, WMTP_KEY(models.value_model.tokenizer_path),
      "Tokenizer of the value model; null = beside it")
      .must_exist()
      .unavailable();
  add(rows, WMTP_KEY(models.value_model.dtype),
      "Storage of its frozen weights; null = as the files give them, bf16 on a GPU")
      .free()
      .with_aliases(kDTypeSpellings);
  add(rows, WMTP_KEY(models.value_model.quantize),
      "nf4: its frozen projection matrices are kept in 4.13 bits a weight, as those of "
      "models.policy.quantize");
  add(rows, WMTP_KEY(models.value_model.placement), "auto = replicate if the memory plan allows")
      .host();
}

void add_reference_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(models.reference.name),
      "Label of the reference model: summary.json, report, model card");
  add(rows, WMTP_KEY(models.reference.path),
      "rho1: the reference model; exactly one of path, checkpoint_path")
      .must_exist();
  add(rows, WMTP_KEY(models.reference.checkpoint_path), "rho1: a wmtp run as the reference model")
      .must_exist();
  add(rows, WMTP_KEY(models.reference.base_model_path),
      "Base of a LoRA-only checkpoint or adapter, in place of the one it names")
      .must_exist();
  add(rows, WMTP_KEY(models.reference.dtype),
      "Storage of its frozen weights; null = as the files give them, bf16 on a GPU")
      .free()
      .with_aliases(kDTypeSpellings);
  add(rows, WMTP_KEY(models.reference.quantize),
      "nf4: its projection matrices are kept in 4.13 bits a weight, as those of "
      "models.policy.quantize");
  add(rows, WMTP_KEY(models.reference.placement), "auto = replicate if the memory plan allows")
      .host();
}

}  // namespace

void add_model_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(experiment.name),
      "Run folder, MLflow run name and S3 prefix; letters, digits and ._- only, at most 128")
      .needed();
  add(rows, WMTP_KEY(experiment.stage), "What is trained, and with which token weights").needed();
  add(rows, WMTP_KEY(experiment.description), "Free text: summary.json, report, model card").free();
  add(rows, WMTP_KEY(experiment.tags),
      "Labels of the run, at most 64: summary.json, report, model card")
      .free();
  add_policy_rows(rows);
  add_value_model_rows(rows);
  add_reference_rows(rows);
}

}  // namespace wmtp::config
