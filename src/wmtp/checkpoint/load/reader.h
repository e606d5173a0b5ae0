// Reading a checkpoint: any stretch of any tensor, whatever ranks wrote it. Nothing is handed out
// that was not checked: a box's CRC is compared the first time bytes are taken from it.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/checkpoint/format/damage.h"
#include "wmtp/checkpoint/format/manifest.h"
#include "wmtp/storage/file_system.h"

namespace wmtp::checkpoint {

// read: headers and boxes by their CRCs. full: also the SHA-256 of every file.
enum class Verify : std::uint8_t { read, full };

// Errors: DamageError for bytes that differ from what the manifest says (with file and range);
// storage::FileError or ErrorKind::io when the storage fails, which is no verdict;
// ErrorKind::config for a newer or foreign checkpoint. THREADS: one at a time.
class CheckpointReader {
 public:
  // Reads and checks manifest.json. A folder that has a checkpoint's name must hold that
  // checkpoint. BORROWS `files`.
  CheckpointReader(const storage::FileSystem& files, std::filesystem::path folder);

  const Manifest& manifest() const { return manifest_; }
  const std::filesystem::path& folder() const { return folder_; }

  // Of either part; nullptr: no such tensor.
  const TensorRecord* find(std::string_view tensor) const;
  // Elements [begin, begin + count) in row order into `out`, in the stored dtype.
  // REQUIRES a tensor that is there, a range inside it, and `out` of exactly that many bytes.
  void read(std::string_view tensor, std::int64_t begin, std::int64_t count,
            std::span<std::byte> out);
  // A file that is no shard (trainer_state.json, config.yaml, ...), checked.
  std::string text(std::string_view path);

  void check_headers();                                   // sizes of all files, headers of shards
  void check_presence() const;                            // of all files, with their sizes
  void check_file(const FileRecord& file, Verify level);  // all of its bytes
  // The files of one share out of `num_shares`, about equal in bytes.
  void check_share(int share, int num_shares, Verify level);

 private:
  struct Shard {
    std::unique_ptr<storage::InputFile> input;  // opened when needed, a bounded number at a time
    bool placed = false;                        // header checked, places of the boxes known
  };
  struct StoredBox {
    std::size_t file = 0;  // index into the manifest's files
    layout::Range range;   // of the tensor's elements
    std::size_t item_bytes = 0;
    std::uint32_t crc32c = 0;
    std::uint64_t offset = 0;  // in the file; known once its header was read
    bool checked = false;
    std::uint64_t bytes() const { return static_cast<std::uint64_t>(range.size()) * item_bytes; }
  };

  [[noreturn]] void damaged(const FileRecord& file, std::uint64_t begin, std::uint64_t end,
                            std::string fact) const;
  void check_size(const FileRecord& file) const;
  std::unique_ptr<storage::InputFile> open(const FileRecord& file) const;
  StoredBox& stored(const BoxRecord& box);
  Shard& opened(std::size_t file);
  void open_shard(std::size_t file, Shard& shard);
  void place_boxes(std::size_t file, Shard& shard, const std::string& header);
  void read_box(StoredBox& box, layout::Range wanted, std::span<std::byte> out);
  void compare(const StoredBox& box, std::uint32_t crc) const;

  const storage::FileSystem* files_;
  std::filesystem::path folder_;
  Manifest manifest_;
  std::vector<Shard> shards_;                                         // parallel to manifest_.files
  std::map<std::string, std::vector<StoredBox>, std::less<>> boxes_;  // sorted by range
  std::size_t num_open_ = 0;
};

// BLOCKS: of all bytes, as the manifest has it.
std::string sha256_of(const storage::InputFile& input);

// Everything that is wrong with the checkpoint, at most one entry a file; empty: it is whole.
// Failures of the storage and foreign checkpoints throw.
std::vector<Damage> find_damage(const storage::FileSystem& files,
                                const std::filesystem::path& folder, Verify level);

}  // namespace wmtp::checkpoint
