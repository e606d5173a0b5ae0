#include "wmtp/run/checkpoints/staging.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "wmtp/core/failpoint.h"
#include "wmtp/tensor/cuda_plugin.h"
#include "wmtp/weights/safetensors_tensor.h"

namespace wmtp::run {
namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::int64_t staged_bytes(const StatePiece& piece) {
  return static_cast<std::int64_t>(piece.values.nbytes());
}

// Of `place` where it is on the host; otherwise to be read from there.
checkpoint::TensorPiece piece_at(const StatePiece& piece, const Tensor& place) {
  checkpoint::TensorPiece found{
      piece.name, weights::to_stored(piece.values.scalar_type()), piece.shape, piece.in_param, {}};
  if (place.is_cpu())
    found.bytes = {static_cast<const std::byte*>(place.const_data_ptr()),
                   static_cast<std::size_t>(staged_bytes(piece))};
  else
    found.read = [values = place.view({-1}).view(at::kByte)](std::uint64_t first,
                                                             std::span<std::byte> out) {
      const auto size = static_cast<std::int64_t>(out.size());
      at::from_blob(out.data(), {size}, at::kByte)
          .copy_(values.narrow(0, static_cast<std::int64_t>(first), size));
    };
  return found;
}

}  // namespace

bool StagingArena::reserve(std::int64_t bytes, bool pinned, std::int64_t budget_bytes) {
  const bool short_of_memory = failpoint::error_number(failpoint::pass("save.stage.memory")) != 0;
  if (!short_of_memory && arena_.defined() && arena_.numel() >= bytes) return true;
  arena_ = Tensor();
  if (short_of_memory || bytes > budget_bytes) return false;
  try {
    arena_ = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(pinned));
    return true;
  } catch (const std::exception&) {  // the allocators' errors say no more than the numbers do
    return false;
  }
}

StagingArena::Staged StagingArena::stage(const std::vector<StatePiece>& pieces,
                                         std::int64_t budget_bytes) {
  std::int64_t needed = 0;
  bool on_gpu = false;
  for (const StatePiece& piece : pieces) {
    needed += aligned(staged_bytes(piece));
    on_gpu = on_gpu || piece.values.is_cuda();
  }
  model_.clear();
  optim_.clear();
  borrowed_.clear();
  const bool copies = reserve(needed, on_gpu, budget_bytes);
  std::int64_t at = 0;
  for (const StatePiece& piece : pieces) {
    auto& part = piece.part == checkpoint::Part::model ? model_ : optim_;
    if (copies) {
      const Tensor place = arena_.narrow(0, at, staged_bytes(piece));
      place.view(piece.values.scalar_type()).copy_(piece.values, /*non_blocking=*/on_gpu);
      part.push_back(piece_at(piece, place));
      at += aligned(staged_bytes(piece));
    } else {
      borrowed_.push_back(piece.values.contiguous());
      part.push_back(piece_at(piece, borrowed_.back()));
    }
  }
  if (on_gpu) cuda_tables().services.synchronize();
  return copies ? Staged::copied : Staged::borrowed;
}

}  // namespace wmtp::run
