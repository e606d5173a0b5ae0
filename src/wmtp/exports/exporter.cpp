#include "wmtp/exports/exporter.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "wmtp/core/checksum.h"
#include "wmtp/core/error.h"
#include "wmtp/exports/companions.h"
#include "wmtp/exports/verify.h"
#include "wmtp/models/adapter_folder.h"
#include "wmtp/models/export_mark.h"
#include "wmtp/storage/atomic_file.h"
#include "wmtp/weights/safetensors_tensor.h"

namespace wmtp::exports {
namespace {

ExportSpec checked(ExportSpec spec) {
  model::validate(spec.config, "the export");
  if (spec.lora) spec.lora = model::checked(*spec.lora, spec.config);
  if (spec.dtype != kFloat32 && spec.dtype != kBFloat16 && spec.dtype != kFloat16)
    throw Error(ErrorKind::config, "export",
                fmt::format("weights cannot be exported as {}", wmtp::name_of(spec.dtype)),
                "use bf16, fp16 or fp32");
  return spec;
}

}  // namespace

std::string nf4_text(const ExportReport& report) {
  if (!report.nf4_base) return "";
  if (!report.nf4_distance)
    return "; from a base in NF4, of which no unquantised weights are at hand to compare with";
  return fmt::format(
      "; from a base in NF4: its {} weights are at most {:.3g}, in the root mean square {:.3g}, "
      "from "
      "those of the unquantised base",
      report.nf4_distance->num_weights(), report.nf4_distance->max(), report.nf4_distance->rms());
}

Exporter::Exporter(ExportSpec spec)
    : spec_(checked(std::move(spec))),
      plan_(plan_export(spec_)),
      folder_(spec_.out, is_export_file, models::kExportMarkFile),
      checksums_(plan_.tensors.size()) {
  for (std::size_t i = 0; i < plan_.tensors.size(); ++i)
    by_name_.emplace(plan_.tensors[i].param.name, i);
  if (spec_.lora && spec_.format != ExportFormat::peft)
    merger_.emplace(
        spec_.config, *spec_.lora,
        AdapterMerger::Calls{[this](const std::string& name) { return unquantized(name); },
                             [this](const std::string& name, const Tensor& whole,
                                    const Tensor& wanted) { put(name, whole, wanted); }});
  open_files();
}

Exporter::~Exporter() = default;

void Exporter::open_files() {
  std::vector<std::vector<weights::StoredTensor>> stored(plan_.files.size());
  for (const PlannedTensor& tensor : plan_.tensors)
    stored[tensor.file].push_back(
        {tensor.stored_name, weights::to_stored(tensor.dtype), tensor.param.shape});
  for (std::size_t f = 0; f < plan_.files.size(); ++f) {
    const std::filesystem::path path = folder_.path() / plan_.files[f].name;
    constexpr unsigned kMode = storage::AtomicFile::kPublic;
    sinks_.push_back(spec_.format == ExportFormat::pt
                         ? weights::create_torch_file(path, std::move(stored[f]),
                                                      {spec_.total_steps, spec_.start_batch_index},
                                                      kMode)
                         : weights::create_safetensors(path, std::move(stored[f]),
                                                       plan_.files[f].metadata, kMode));
  }
}

std::vector<layout::ParamSpec> Exporter::wanted() const {
  std::vector<layout::ParamSpec> params;
  for (const PlannedTensor& tensor : plan_.tensors) params.push_back(tensor.param);
  if (!merger_) return params;
  // Each adapted weight followed by its adapters: what waits is one module.
  std::map<std::string, std::vector<layout::ParamSpec>, std::less<>> adapters;
  for (layout::ParamSpec& param : models::adapter_params(spec_.config, *spec_.lora))
    adapters[std::string(models::adapted_module(param.name)) + ".weight"].push_back(param);
  std::vector<layout::ParamSpec> all;
  for (const layout::ParamSpec& param : params) {
    all.push_back(param);
    if (const auto at = adapters.find(param.name); at != adapters.end())
      all.insert(all.end(), at->second.begin(), at->second.end());
  }
  return all;
}

void Exporter::take(const std::string& name, const Tensor& whole) noexcept {
  if (failure_) return;
  try {
    if (merger_)
      merger_->take(name, whole);
    else
      put(name, whole, unquantized(name));
  } catch (...) {
    failure_ = std::current_exception();
  }
}

Tensor Exporter::unquantized(const std::string& name) const {
  const auto at = by_name_.find(name);
  if (!spec_.unquantized || at == by_name_.end() || !spec_.unquantized->names.contains(name))
    return {};
  const layout::ParamSpec& param = plan_.tensors[at->second].param;
  const Tensor values = at::empty(param.shape, at::kFloat);
  spec_.unquantized->fill(param, 0, values.view({-1}));
  return values;
}

void Exporter::put(const std::string& name, const Tensor& whole, const Tensor& wanted) {
  const auto at = by_name_.find(name);
  if (at == by_name_.end()) return;
  const PlannedTensor& planned = plan_.tensors[at->second];
  WMTP_CHECK(whole.sizes().vec() == planned.param.shape,
             fmt::format("tensor {} came in another shape", name));
  const Tensor values = whole.to(at::kCPU, planned.dtype).contiguous();
  const auto bytes = weights::bytes_of(values);
  checksums_[at->second] = crc32c(bytes);
  sinks_[planned.file]->put(planned.stored_name, bytes);
  if (wanted.defined()) distance_.add(values, wanted);
}

ExportReport Exporter::finish(const ExportReference& reference) {
  if (failure_) std::rethrow_exception(failure_);
  for (const auto& sink : sinks_) sink->finish();
  write_companions(folder_.path(), spec_, plan_);
  ExportReport report;
  report.num_tensors = plan_.tensors.size();
  report.bytes = plan_.bytes();
  report.nf4_base = spec_.nf4_base && spec_.format != ExportFormat::peft;
  if (distance_.num_weights() > 0) report.nf4_distance = distance_;
  if (spec_.verify) {
    report.logit_difference = verify_export({folder_.path(), spec_, plan_, checksums_}, reference);
    report.verified = true;
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    report.files.push_back(entry.path().filename().string());
  std::ranges::sort(report.files);
  folder_.commit();
  report.folder = folder_.target();
  return report;
}

}  // namespace wmtp::exports
