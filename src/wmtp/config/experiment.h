// Sections `experiment` and `models`. Initial values are the built-in defaults; meanings, ranges
// and resume classes stand in the schema table (table_model.cpp).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/config/enum_names.h"
#include "wmtp/core/json.h"

namespace wmtp::config {

enum class Stage { baseline, critic, verifiable, rho1 };
WMTP_ENUM_NAMES(Stage, "baseline", "critic", "verifiable", "rho1");
enum class DType { bf16, fp16, fp32 };
WMTP_ENUM_NAMES(DType, "bf16", "fp16", "fp32");
enum class Quantize { none, nf4 };
WMTP_ENUM_NAMES(Quantize, "none", "nf4");
enum class WeightInit { pretrained, random };
WMTP_ENUM_NAMES(WeightInit, "pretrained", "random");
enum class AddHeads { copy, random };
WMTP_ENUM_NAMES(AddHeads, "copy", "random");
enum class Placement { automatic, replicate, shard };
WMTP_ENUM_NAMES(Placement, "auto", "replicate", "shard");

struct Experiment {
  std::string name;
  Stage stage = Stage::baseline;
  std::string description;
  std::vector<std::string> tags;
};

// Where a model lies: a folder, a .pt file, a checkpoint, a preset name, or an `org/name` of the
// Hugging Face cache. A leading `~/` is already expanded.
struct ModelLocation {
  std::string text;
  bool operator==(const ModelLocation&) const = default;
};

struct PolicyModel {
  ModelLocation path;
  std::optional<ModelLocation> tokenizer_path;
  std::optional<std::string> name;
  std::optional<DType> dtype;  // of frozen weights; null: as they are computed with
  Quantize quantize = Quantize::none;
  WeightInit init = WeightInit::pretrained;
  std::optional<std::int64_t> n_future_tokens;
  AddHeads add_heads = AddHeads::copy;
  Json params = Json::object();
};

struct ValueModel {
  std::optional<ModelLocation> path, checkpoint_path, base_model_path, tokenizer_path;
  std::optional<DType> dtype;  // of frozen weights; null: as they are computed with
  Quantize quantize = Quantize::none;
  Placement placement = Placement::automatic;
};

struct ReferenceModel {
  std::optional<std::string> name;
  std::optional<ModelLocation> path, checkpoint_path, base_model_path;
  std::optional<DType> dtype;  // of frozen weights; null: as they are computed with
  Quantize quantize = Quantize::none;
  Placement placement = Placement::automatic;
};

struct Models {
  PolicyModel policy;
  ValueModel value_model;
  ReferenceModel reference;
};

}  // namespace wmtp::config
