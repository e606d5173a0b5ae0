// A rank's tensors as safetensors files that PyTorch's distributed checkpoint reads: one file per
// kind of box (layout::row_boxes), each with its place in the whole in DCP_SHARDING_INFO.
#pragma once
#include <cstddef>
#include <filesystem>
#include <future>
#include <span>
#include <string>
#include <vector>

#include "wmtp/commit/manifest.h"
#include "wmtp/layout/shard_plan.h"
#include "wmtp/storage/file_system.h"

namespace wmtp::commit {

// A stretch of one tensor. The caller keeps the bytes as they are until the save has ended.
struct TensorPiece {
  std::string name;
  storage::StoredDtype dtype = storage::StoredDtype::F32;
  std::vector<std::int64_t> shape;   // of the whole tensor
  layout::Range range;               // elements, row-major
  std::span<const std::byte> bytes;  // BORROWED; exactly those elements
};

// REQUIRES floating-point tensors of rank 1 or 2 without empty extents, names unique, bytes of the
// right size (Error internal otherwise): Python's tools read nothing else from sharded files.
void check_pieces(std::span<const TensorPiece> pieces);
TensorTable table_of(std::span<const TensorPiece> pieces);
std::uint64_t bytes_of(std::span<const TensorPiece> pieces);

struct WrittenFile {
  FileRecord record;                // without its SHA-256
  std::future<std::string> sha256;  // reads the pieces' bytes
};

// A rank's shard files of one checkpoint. CRCs are computed on the way, SHA-256 in threads beside
// the writing: that of one file may still run while the next is written.
class ShardWriter {
 public:
  // BORROWS `files`.
  ShardWriter(storage::FileSystem& files, std::filesystem::path checkpoint, int rank)
      : files_(files), checkpoint_(std::move(checkpoint)), rank_(rank) {}

  // BLOCKS. Writes, fsyncs and closes up to three files in the part's folder, which exists. Any
  // failure is a FileError, and then the whole save has failed.
  void write(Part part, std::span<const TensorPiece> pieces);
  // BLOCKS until the hashes are done. The records of all files, paths relative to the checkpoint's
  // folder.
  std::vector<FileRecord> finish();

 private:
  storage::FileSystem& files_;
  std::filesystem::path checkpoint_;
  int rank_;
  std::vector<WrittenFile> written_;
};

}  // namespace wmtp::commit
