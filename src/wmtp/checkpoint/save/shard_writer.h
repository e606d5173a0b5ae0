// A rank's tensors as safetensors files that PyTorch's distributed checkpoint reads: one file per
// kind of box (layout::row_boxes), each with its place in the whole in DCP_SHARDING_INFO.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "wmtp/checkpoint/format/manifest.h"
#include "wmtp/layout/shard_plan.h"
#include "wmtp/storage/file_system.h"

namespace wmtp::checkpoint {

// The bytes of a piece from `first` on, into `out`. Called by several threads at once.
using ReadBytes = std::function<void(std::uint64_t first, std::span<std::byte> out)>;

// A stretch of one tensor. The caller keeps its values as they are until the save has ended.
struct TensorPiece {
  std::string name;
  storage::StoredDtype dtype = storage::StoredDtype::F32;
  std::vector<std::int64_t> shape;   // of the whole tensor
  layout::Range range;               // elements, row-major
  std::span<const std::byte> bytes;  // BORROWED; exactly those elements
  // Instead of `bytes` where the values are not in host memory; each is asked for twice, in blocks.
  ReadBytes read = {};
};

// REQUIRES tensors of floating-point numbers or bytes (U8) of rank 1 or 2 without empty extents,
// names unique, `bytes` of the right size (Error internal otherwise): Python's tools read nothing
// else from sharded files.
void check_pieces(std::span<const TensorPiece> pieces);
TensorTable table_of(std::span<const TensorPiece> pieces);
std::uint64_t bytes_of(std::span<const TensorPiece> pieces);

// BORROWS `files`.
struct ShardContext {
  storage::FileSystem& files;
  std::filesystem::path checkpoint;  // the folders of its parts exist
  int rank = 0;
  std::function<void()> check_cancelled = [] {};  // SaveContext's; the hashes ask it too
};

// BLOCKS. Writes, fsyncs and closes the shard files of a rank, at most three in each part's folder.
// Any failure is a FileError, and then the whole save has failed. Returns the records of all files,
// paths relative to the checkpoint's folder. CRCs are computed on the way, SHA-256 of all files
// beside the writing.
std::vector<FileRecord> write_shards(const ShardContext& context,
                                     std::span<const TensorPiece> model,
                                     std::span<const TensorPiece> optim);

}  // namespace wmtp::checkpoint
