#include "wmtp/models/read_elements.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/weights/safetensors_tensor.h"

namespace wmtp::models {

void read_elements(checkpoint::CheckpointReader& reader, const std::string& name,
                   std::int64_t begin, const Tensor& out) {
  const checkpoint::TensorRecord* record = reader.find(name);
  if (!record)
    throw Error(ErrorKind::config, "checkpoint",
                fmt::format("{} holds no {}", reader.folder().string(), name),
                "was it saved by a run with another model or other adapters?");
  const auto dtype = weights::to_dtype(record->dtype);
  WMTP_CHECK(dtype, "a checkpoint holds a type nobody computes with");
  const Tensor host = out.scalar_type() == *dtype && out.is_contiguous() && out.device().is_cpu()
                          ? out
                          : at::empty({out.numel()}, at::TensorOptions().dtype(*dtype));
  reader.read(name, begin, out.numel(),
              {static_cast<std::byte*>(host.data_ptr()), static_cast<std::size_t>(host.nbytes())});
  if (!host.is_same(out)) out.copy_(host.view(out.sizes()));
}

}  // namespace wmtp::models
