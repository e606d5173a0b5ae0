#include "wmtp/run/checkpoints/staging.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <system_error>

#include "wmtp/core/error.h"
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
  return piece.values.bytes();
}

checkpoint::TensorPiece described(const StatePiece& piece) {
  return {piece.name, weights::to_stored(piece.values.dtype()), piece.shape, piece.in_param, {}};
}

checkpoint::TensorPiece piece_on_host(const StatePiece& piece, const Tensor& place) {
  checkpoint::TensorPiece found = described(piece);
  found.bytes = {static_cast<const std::byte*>(place.const_data_ptr()),
                 static_cast<std::size_t>(staged_bytes(piece))};
  return found;
}

// Of a state that is borrowed: numbers are read from where they lie when they are written.
checkpoint::TensorPiece piece_to_read(const StatePiece& piece) {
  checkpoint::TensorPiece found = described(piece);
  found.read = [values = piece.values](std::uint64_t first, std::span<std::byte> out) {
    const std::size_t element = element_bytes(values.dtype());
    WMTP_CHECK(first % element == 0 && out.size() % element == 0, "a piece is cut within a number");
    const auto begin = static_cast<std::int64_t>(first / element);
    const auto size = static_cast<std::int64_t>(out.size() / element);
    values.narrow({begin, begin + size})
        .read_into(at::from_blob(out.data(), {size}, values.dtype()));
  };
  return found;
}

struct Needed {
  std::int64_t bytes = 0;
  c10::Device device = c10::kCPU;
};

Needed needed_for(const std::vector<StatePiece>& pieces) {
  Needed needed;
  for (const StatePiece& piece : pieces) {
    needed.bytes += aligned(staged_bytes(piece));
    const Tensor& values = piece.values.values();
    if (values.is_cuda()) needed.device = values.device();
  }
  return needed;
}

Tensor host_bytes(std::int64_t bytes, bool pinned) {
  return at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(pinned));
}

// The kernel hands out a page when it is first written to.
void touch_pages(const Tensor& arena, const std::stop_token& stop) {
  constexpr std::int64_t kPageBytes = 4096;
  auto* bytes = static_cast<volatile std::byte*>(arena.mutable_data_ptr());
  for (std::int64_t at = 0; at < arena.numel() && !stop.stop_requested(); at += kPageBytes)
    bytes[at] = std::byte{0};
}

}  // namespace

void StagingArena::prepare(const std::vector<StatePiece>& pieces, std::int64_t budget_bytes) {
  const Needed needed = needed_for(pieces);
  if (needed.bytes == 0 || needed.bytes > budget_bytes) return;
  const auto work = [this, needed](const std::stop_token& stop) {
    try {
      const bool pinned = needed.device.is_cuda();
      // Pinned memory belongs to the thread's device, which is the first one unless it is told.
      if (pinned) cuda_tables().services.set_device(needed.device.index());
      arena_ = host_bytes(needed.bytes, pinned);
      if (!pinned) touch_pages(arena_, stop);
    } catch (const std::exception&) {  // the save meets the same, and says so
      arena_ = Tensor();
    }
  };
  try {
    preparing_ = std::jthread(work);
  } catch (const std::system_error&) {  // no more threads: the save allocates
  }
}

bool StagingArena::reserve(std::int64_t bytes, bool pinned, std::int64_t budget_bytes) {
  const bool short_of_memory = failpoint::error_number(failpoint::pass("save.stage.memory")) != 0;
  if (!short_of_memory && arena_.defined() && arena_.numel() >= bytes) return true;
  arena_ = Tensor();
  if (short_of_memory || bytes > budget_bytes) return false;
  try {
    arena_ = host_bytes(bytes, pinned);
    return true;
  } catch (const std::exception&) {  // the allocators' errors say no more than the numbers do
    return false;
  }
}

StagingArena::Staged StagingArena::stage(const std::vector<StatePiece>& pieces,
                                         std::int64_t budget_bytes) {
  if (preparing_.joinable()) preparing_.join();
  const Needed needed = needed_for(pieces);
  const bool on_gpu = needed.device.is_cuda();
  model_.clear();
  optim_.clear();
  borrowed_.clear();
  const bool copies = reserve(needed.bytes, on_gpu, budget_bytes);
  std::int64_t at = 0;
  for (const StatePiece& piece : pieces) {
    auto& part = piece.part == checkpoint::Part::model ? model_ : optim_;
    if (copies) {
      const Tensor place = arena_.narrow(0, at, staged_bytes(piece));
      piece.values.read_into(place.view(piece.values.dtype()), /*non_blocking=*/on_gpu);
      part.push_back(piece_on_host(piece, place));
      at += aligned(staged_bytes(piece));
    } else if (on_gpu || piece.values.lower().defined()) {
      part.push_back(piece_to_read(piece));
    } else {
      borrowed_.push_back(piece.values.values().contiguous());
      part.push_back(piece_on_host(piece, borrowed_.back()));
    }
  }
  if (on_gpu) cuda_tables().services.synchronize();
  return copies ? Staged::copied : Staged::borrowed;
}

}  // namespace wmtp::run
