// Whole checkpoints to S3 and back. Either side has the new checkpoint or it has none: there the
// manifest comes last, here the folder takes its name last.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace wmtp::models {

// One file is where it belongs.
struct CopiedFile {
  std::string path;  // relative to the checkpoint's folder
  std::uint64_t bytes = 0;
  bool was_there = false;           // with the same bytes: nothing went over the wire
  std::size_t done = 0, total = 0;  // files so far and in all
};
using OnCopied = std::function<void(const CopiedFile&)>;

struct CopyResult {
  std::string name;   // <model>-<N>steps
  std::string place;  // of the copy: URI or path
  std::uint64_t copied_bytes = 0;
  std::size_t num_copied = 0, num_kept = 0;
  std::vector<std::string> pointers = {};  // those that were written
};

// BLOCKS. The files of the checkpoint to <uri>/<name>/, each checked against the manifest before
// and by its ETag afterwards; then the manifest; then <model>-latest, if none of a later step is
// there, and -best and -final where they name this one beside it. Objects with the same bytes stay.
// Errors: DamageError, and nothing is published; Error config where another checkpoint of that name
// is there; what s3::upload_file throws. REQUIRES is_checkpoint(folder), on a disk.
CopyResult push_checkpoint(const std::filesystem::path& folder, const std::string& uri,
                           const OnCopied& on_copied = {});

// BLOCKS. The checkpoint at `remote` to <folder>/<name>, every file checked against its SHA-256. It
// is put together under a hidden name; a pull that was cut short goes on there. Where it is already
// and whole, nothing is done. Errors: DamageError for bytes that differ from the manifest; Error
// config where something else has its name, or another process pulls it. REQUIRES
// is_checkpoint(remote), in a bucket.
CopyResult pull_checkpoint(const std::filesystem::path& remote, const std::filesystem::path& folder,
                           const OnCopied& on_copied = {});

}  // namespace wmtp::models
