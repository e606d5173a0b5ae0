// manifest.json: what a checkpoint consists of, with the checksums of every byte. A folder without
// a manifest that verifies is no checkpoint.
//
// self_sha256, the last key, is the SHA-256 of the file with those 64 digits replaced by '0'.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/checkpoint/format/names.h"
#include "wmtp/layout/shard_plan.h"
#include "wmtp/storage/stored_tensor.h"

namespace wmtp::checkpoint {

inline constexpr std::int64_t kManifestVersion = 1;

enum class CheckpointKind : std::uint8_t { sharded, lora };  // lora: without the frozen base
std::string_view name_of(CheckpointKind kind);

struct TensorRecord {
  storage::StoredDtype dtype = storage::StoredDtype::F32;
  std::vector<std::int64_t> shape;
  bool operator==(const TensorRecord&) const = default;
};
using TensorTable = std::map<std::string, TensorRecord, std::less<>>;

struct BoxRecord {
  std::string tensor;
  std::vector<std::int64_t> offsets, shape;
  std::uint32_t crc32c = 0;
};

struct FileRecord {
  std::string path;  // relative to the folder: model/shard-..., trainer_state.json
  std::uint64_t bytes = 0;
  std::string sha256;            // 64 hex digits
  std::uint32_t crc32c = 0;      // of a shard file's header, of all of any other file
  std::vector<BoxRecord> boxes;  // empty: not a shard file
  bool is_shard() const { return !boxes.empty(); }
};

struct Fingerprints {
  std::string config, data, tokenizer, base;
  bool operator==(const Fingerprints&) const = default;
};

struct Manifest {
  std::string model;
  std::int64_t step = 0;
  CheckpointKind kind = CheckpointKind::sharded;
  std::string run_id, created, wmtp;  // wmtp: version of the program
  int world_size = 1;
  std::string strategy;
  Fingerprints fingerprints;
  TensorTable model_tensors, optim_tensors;
  std::vector<FileRecord> files;  // sorted by path
  std::string self_sha256;        // set by to_text and parse_manifest

  const TensorTable& tensors(Part part) const {
    return part == Part::model ? model_tensors : optim_tensors;
  }
  const FileRecord* find(std::string_view path) const;  // nullptr: not listed
  std::uint64_t total_bytes() const;                    // of the files listed
};

// Sorts the files and sets self_sha256.
std::string to_text(Manifest& manifest);

// Believes nothing before the self hash matches. Damage (a bad hash, a missing key, a path that
// plays tricks, boxes that do not fit) is DamageError naming `folder`/manifest.json. A newer
// version or a foreign file is no damage: ErrorKind::config.
Manifest parse_manifest(std::string_view text, std::string_view folder);

// The box as a range of the tensor's elements in row order. Nothing when it lies outside or its
// elements do not follow each other (several rows that are not whole).
std::optional<layout::Range> flat_range(const TensorRecord& tensor, const BoxRecord& box);

// The boxes of every tensor: inside it, disjoint, and all of it. Returns what is wrong, or "".
std::string find_box_fault(const Manifest& manifest);

}  // namespace wmtp::checkpoint
