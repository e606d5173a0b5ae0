#include "wmtp/exports/plan.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/core/json.h"
#include "wmtp/models/adapter_folder.h"

namespace wmtp::exports {
namespace {

constexpr std::string_view kExtraHeads = "model.extra_heads.";
constexpr const char *kWeightsFile = "model.safetensors", *kHeadsFile = "mtp_heads.safetensors",
                     *kTorchFile = "checkpoint.pt";

std::uint64_t bytes_of(const PlannedTensor& tensor) {
  return static_cast<std::uint64_t>(tensor.param.numel()) * element_bytes(tensor.dtype);
}

bool is_shard(std::string_view name) {
  return name.starts_with("model-");
}

class Planner {
 public:
  explicit Planner(const ExportSpec& spec) : spec_(spec) {}

  ExportPlan hf() {
    std::vector<layout::ParamSpec> base, extra;
    for (const layout::UnitSpec& unit : model::model_units(spec_.config))
      for (const layout::ParamSpec& param : unit.params)
        (param.name.starts_with(kExtraHeads) ? extra : base).push_back(param);
    add_shards(base);
    if (spec_.keep_mtp) add_file(kHeadsFile, extra, spec_.dtype);
    add_value_head();
    return std::move(plan_);
  }

  ExportPlan peft() {
    if (!spec_.lora)
      throw Error(ErrorKind::config, "export", "there are no adapters to export as peft",
                  "whole weights are exported with --format hf or pt");
    if (spec_.lora->train_heads && spec_.lora->scope == model::LoraScope::trunk &&
        spec_.config.n_future > 1)
      throw Error(ErrorKind::config, "export", "heads trained whole do not fit into an adapter",
                  "export the merged model with --format hf --merge-lora --keep-mtp");
    std::vector<layout::ParamSpec> base, extra;
    for (const layout::ParamSpec& param : models::adapter_params(spec_.config, *spec_.lora))
      (param.name.starts_with(kExtraHeads) ? extra : base).push_back(param);
    add_file(models::kAdapterFile, base, spec_.dtype);
    add_file(models::kAdapterHeadsFile, extra, spec_.dtype);
    for (PlannedTensor& tensor : plan_.tensors)
      tensor.stored_name = model::to_peft_name(tensor.param.name);
    add_value_head();
    return std::move(plan_);
  }

  ExportPlan pt() {
    plan_.files.push_back({kTorchFile, {}});
    for (const layout::UnitSpec& unit : model::model_units(spec_.config))
      for (const layout::ParamSpec& param : unit.params) add(param, spec_.dtype);
    if (spec_.value_head)
      for (const auto& param : model::value_head_unit(*spec_.value_head, spec_.config.dim).params)
        add(param, kFloat32);
    return std::move(plan_);
  }

 private:
  void add(const layout::ParamSpec& param, DType dtype) {
    plan_.tensors.push_back({param, param.name, dtype, plan_.files.size() - 1});
  }

  void add_file(const char* name, const std::vector<layout::ParamSpec>& params, DType dtype) {
    if (params.empty()) return;
    plan_.files.push_back({name, {}});
    for (const layout::ParamSpec& param : params) add(param, dtype);
  }

  void add_value_head() {
    if (!spec_.value_head) return;
    add_file(models::kValueHeadFile,
             model::value_head_unit(*spec_.value_head, spec_.config.dim).params, kFloat32);
    plan_.files.back().metadata[models::kValueHeadKey] = model::name_of(*spec_.value_head);
  }

  void add_shards(const std::vector<layout::ParamSpec>& params) {
    std::uint64_t filled = 0;
    for (const layout::ParamSpec& param : params) {
      const std::uint64_t bytes =
          static_cast<std::uint64_t>(param.numel()) * element_bytes(spec_.dtype);
      if (plan_.files.empty() || filled + bytes > spec_.max_shard_bytes) {
        plan_.files.push_back({kWeightsFile, {}});
        filled = 0;
      }
      filled += bytes;
      add(param, spec_.dtype);
    }
    const std::size_t count = plan_.files.size();
    for (std::size_t i = 0; count > 1 && i < count; ++i)
      plan_.files[i].name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, count);
  }

  const ExportSpec& spec_;
  ExportPlan plan_;
};

}  // namespace

std::uint64_t ExportPlan::bytes() const {
  std::uint64_t sum = 0;
  for (const PlannedTensor& tensor : tensors) sum += bytes_of(tensor);
  return sum;
}

ExportPlan plan_export(const ExportSpec& spec) {
  Planner planner(spec);
  switch (spec.format) {
    case ExportFormat::hf:
      return planner.hf();
    case ExportFormat::peft:
      return planner.peft();
    case ExportFormat::pt:
      return planner.pt();
  }
  WMTP_CHECK(false, "unknown export format");
}

std::string index_text(const ExportPlan& plan) {
  Json map = Json::object();
  std::uint64_t bytes = 0;
  std::int64_t parameters = 0;
  for (const PlannedTensor& tensor : plan.tensors) {
    const std::string& file = plan.files[tensor.file].name;
    if (!is_shard(file)) continue;
    map[tensor.stored_name] = file;
    bytes += bytes_of(tensor);
    parameters += tensor.param.numel();
  }
  if (map.empty()) return "";
  const Json index{{"metadata", {{"total_parameters", parameters}, {"total_size", bytes}}},
                   {"weight_map", std::move(map)}};
  return index.dump(2) + "\n";
}

}  // namespace wmtp::exports
