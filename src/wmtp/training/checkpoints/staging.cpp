#include "wmtp/training/checkpoints/staging.h"

#include <ATen/ops/empty.h>

#include "wmtp/checkpoint/safetensors_tensor.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::training {
namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

void StagingArena::stage(const std::vector<StatePiece>& pieces) {
  std::int64_t needed = 0;
  bool on_gpu = false;
  for (const StatePiece& piece : pieces) {
    needed += aligned(static_cast<std::int64_t>(piece.values.nbytes()));
    on_gpu = on_gpu || piece.values.is_cuda();
  }
  if (!arena_.defined() || arena_.numel() < needed)
    arena_ = at::empty({needed}, at::TensorOptions().dtype(at::kByte).pinned_memory(on_gpu));
  model_.clear();
  optim_.clear();
  std::int64_t at = 0;
  for (const StatePiece& piece : pieces) {
    const auto bytes = static_cast<std::int64_t>(piece.values.nbytes());
    const Tensor place = arena_.narrow(0, at, bytes);
    place.view(piece.values.scalar_type()).copy_(piece.values, /*non_blocking=*/on_gpu);
    auto& part = piece.part == commit::Part::model ? model_ : optim_;
    part.push_back(
        {piece.name,
         checkpoint::to_stored(piece.values.scalar_type()),
         piece.shape,
         piece.in_param,
         {static_cast<const std::byte*>(place.const_data_ptr()), static_cast<std::size_t>(bytes)}});
    at += aligned(bytes);
  }
  if (on_gpu) cuda_tables().services.synchronize();
}

}  // namespace wmtp::training
