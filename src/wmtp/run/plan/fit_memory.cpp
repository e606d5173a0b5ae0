#include "wmtp/run/plan/fit_memory.h"

#include <fmt/format.h>

#include <vector>

#include "wmtp/core/error.h"

namespace wmtp::run {
namespace {

bool fits(const MemoryRequest& request, std::int64_t limit_bytes) {
  return plan_memory(request).needed_bytes() <= limit_bytes;
}

bool place_frozen(MemoryRequest& request, std::int64_t limit_bytes, bool may_shard) {
  if (!may_shard) return fits(request, limit_bytes);
  request.other->shard = false;
  if (fits(request, limit_bytes)) return true;
  request.other->shard = true;
  return fits(request, limit_bytes);
}

[[noreturn]] void refuse_size(const MemoryRequest& request, std::int64_t limit_bytes) {
  const MemoryPlan plan = plan_memory(request);
  throw Error(
      ErrorKind::config, "memory",
      fmt::format("a rank needs {:.1f} GiB at its peak ({}), {:.1f} GiB are there:\n{}",
                  static_cast<double>(plan.needed_bytes()) / (1 << 30), plan.peak,
                  static_cast<double>(limit_bytes) / (1 << 30), plan.table()),
      "use more ranks with FULL_SHARD, a smaller training.batch_size or dataset.max_length, "
      "fsdp.activation_checkpointing: block, or training.use_lora");
}

}  // namespace

void fit_memory(MemoryRequest& request, std::int64_t limit_bytes, const FitChoices& choices) {
  std::vector<model::Recompute> levels{request.recompute};
  if (choices.recompute)
    levels = {model::Recompute::none, model::Recompute::light, model::Recompute::block};
  for (const model::Recompute level : levels) {
    request.recompute = level;
    if (place_frozen(request, limit_bytes, choices.shard_frozen)) return;
  }
  refuse_size(request, limit_bytes);
}

}  // namespace wmtp::run
