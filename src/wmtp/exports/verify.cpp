#include "wmtp/exports/verify.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/checksum.h"
#include "wmtp/core/error.h"
#include "wmtp/models/adapter_folder.h"
#include "wmtp/models/open_model.h"
#include "wmtp/weights/safetensors_tensor.h"

namespace wmtp::exports {
namespace {

// The folder as a reader sees it.
struct ReadBack {
  model::ModelConfig config;
  std::unique_ptr<weights::WeightSource> weights;
};

ReadBack open_back(const WrittenExport& written) {
  if (written.spec.format == ExportFormat::peft)
    return {written.spec.config, models::open_adapter(written.folder, written.spec.config).weights};
  models::OpenedModel opened =
      models::open_model(written.folder.string(), [](const std::string&) { return std::nullopt; });
  return {opened.config, std::move(opened.folder.weights)};
}

void compare_tensors(const WrittenExport& written, const weights::WeightSource& weights) {
  for (std::size_t i = 0; i < written.plan.tensors.size(); ++i) {
    const PlannedTensor& tensor = written.plan.tensors[i];
    const Tensor values = at::empty(tensor.param.shape, at::TensorOptions().dtype(tensor.dtype));
    weights.read(tensor.param.name, 0, values);
    if (crc32c(weights::bytes_of(values)) != written.checksums[i])
      throw Error(ErrorKind::io, "export",
                  fmt::format("{} in {} reads back otherwise than it was written",
                              tensor.param.name, written.plan.files[tensor.file].name),
                  "is the disk sound?");
  }
}

ProbeLogits logits_of(const WrittenExport& written, const ReadBack& back,
                      const ExportReference& reference) {
  const auto read = [&](const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
    back.weights->read(param.name, begin, out);
  };
  if (written.spec.format != ExportFormat::peft)
    return probe_logits(back.config, std::nullopt, read);
  return probe_logits(back.config, written.spec.lora,
                      [&](const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
                        models::is_adapter_param(param.name) ? read(param, begin, out)
                                                             : reference.base(param, begin, out);
                      });
}

// How far rounding to a dtype may carry the logits, over the largest of them. A wrong tensor
// carries them by its own size.
double tolerance(DType dtype) {
  return dtype == kFloat32 ? 1e-4 : dtype == kFloat16 ? 0.02 : 0.1;
}

}  // namespace

std::optional<double> verify_export(const WrittenExport& written,
                                    const ExportReference& reference) {
  const ReadBack back = [&] {
    try {
      return open_back(written);
    } catch (const Error& error) {
      throw Error(ErrorKind::io, "export",
                  fmt::format("what was written does not open again: {}", error.fact()));
    }
  }();
  compare_tensors(written, *back.weights);
  const bool can_probe = written.spec.format != ExportFormat::peft || reference.base;
  if (reference.logits.empty() || !can_probe) return std::nullopt;
  const double far = probe_difference(reference.logits, logits_of(written, back, reference));
  const double allowed = std::max(tolerance(written.spec.dtype), tolerance(reference.computed_in));
  if (!(far <= allowed))
    throw Error(ErrorKind::numeric, "export",
                fmt::format("the export's logits differ from the source's by {:.3g} of the largest "
                            "one; {} allows {}",
                            far, wmtp::name_of(written.spec.dtype), allowed),
                "do all weights fit the range of the dtype?");
  return far;
}

}  // namespace wmtp::exports
