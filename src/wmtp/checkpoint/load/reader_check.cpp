#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "wmtp/checkpoint/load/reader.h"
#include "wmtp/core/checksum.h"

namespace wmtp::checkpoint {
namespace {

constexpr std::size_t kHashedPieceBytes = std::size_t{1} << 20;

// Largest first, each to the share that has least so far; the same on every rank.
std::vector<const FileRecord*> files_of_share(const Manifest& manifest, int share, int num_shares) {
  std::vector<const FileRecord*> by_size, mine;
  for (const FileRecord& file : manifest.files) by_size.push_back(&file);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  std::vector<std::uint64_t> load(static_cast<std::size_t>(num_shares));
  for (const FileRecord* file : by_size) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += file->bytes + 1;
    if (least - load.begin() == share) mine.push_back(file);
  }
  return mine;
}

}  // namespace

std::string sha256_of(const storage::InputFile& input) {
  Sha256 hash;
  std::vector<std::byte> block(std::min<std::uint64_t>(kHashedPieceBytes, input.size()));
  for (std::uint64_t at = 0; at < input.size(); at += block.size()) {
    const auto piece = std::span(block).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), input.size() - at)));
    input.read(at, piece);
    hash.update(piece);
  }
  return to_hex(hash.finish());
}

void CheckpointReader::check_file(const FileRecord& file, Verify level) {
  if (!file.is_shard()) text(file.path);
  for (const BoxRecord& record : file.boxes) {
    StoredBox& box = stored(record);
    box.checked = false;
    read_box(box, {box.range.begin, box.range.begin}, {});
  }
  if (level == Verify::read) return;
  const std::string sha256 = sha256_of(*open(file));
  if (sha256 != file.sha256)
    damaged(file, 0, file.bytes,
            fmt::format("sha256 is {}, the manifest says {}", sha256, file.sha256));
}

void CheckpointReader::check_headers() {
  check_presence();
  for (std::size_t i = 0; i < manifest_.files.size(); ++i)
    if (manifest_.files[i].is_shard()) opened(i);
}

void CheckpointReader::check_share(int share, int num_shares, Verify level) {
  for (const FileRecord* file : files_of_share(manifest_, share, num_shares))
    check_file(*file, level);
}

std::vector<Damage> find_damage(const storage::FileSystem& files,
                                const std::filesystem::path& folder, Verify level) {
  std::vector<Damage> found;
  try {
    CheckpointReader reader(files, folder);
    for (const FileRecord& file : reader.manifest().files) try {
        reader.check_file(file, level);
      } catch (const DamageError& error) {
        found.push_back(error.damage());
      }
  } catch (const DamageError& error) {
    found.push_back(error.damage());
  }
  return found;
}

}  // namespace wmtp::checkpoint
