#include "wmtp/checkpoint/load/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "wmtp/checkpoint/format/guard.h"
#include "wmtp/core/checksum.h"
#include "wmtp/storage/safetensors_header.h"

namespace wmtp::checkpoint {
namespace {

using layout::Range;

constexpr std::size_t kBoxPieceBytes = std::size_t{1} << 20;
constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{512} << 20;
constexpr std::size_t kMaxOpenFiles = 128;

Manifest read_manifest(const storage::FileSystem& files, const std::filesystem::path& folder) {
  const std::string where = folder.string();
  const storage::FileStatus status = files.status(folder / kManifestFile);
  auto damaged = [&](std::string fact) {
    throw DamageError({std::string(kManifestFile), 0, status.bytes, std::move(fact)}, where);
  };
  if (status.kind == storage::FileKind::missing) damaged("it is missing");
  if (status.kind != storage::FileKind::file) damaged("it is not a regular file");
  if (status.bytes > kMaxManifestBytes) damaged("it is too large");
  fail_if_asked(failpoint::pass("load.manifest.read"), folder / kManifestFile);
  Manifest manifest = parse_manifest(
      storage::read_text(files, folder, kManifestFile, where, kMaxManifestBytes), where);
  const auto name = parse_checkpoint_name(folder.filename().string());
  if (name && (name->model != manifest.model || name->step != manifest.step))
    damaged(fmt::format("it belongs to {}", checkpoint_name(manifest.model, manifest.step)));
  return manifest;
}

}  // namespace

CheckpointReader::CheckpointReader(const storage::FileSystem& files, std::filesystem::path folder)
    : files_(&files), folder_(std::move(folder)), manifest_(read_manifest(files, folder_)) {
  shards_.resize(manifest_.files.size());
  for (std::size_t i = 0; i < manifest_.files.size(); ++i)
    for (const BoxRecord& box : manifest_.files[i].boxes) {
      const TensorRecord& tensor = *find(box.tensor);
      boxes_[box.tensor].push_back({.file = i,
                                    .range = *flat_range(tensor, box),
                                    .item_bytes = storage::bits_of(tensor.dtype) / 8,
                                    .crc32c = box.crc32c});
    }
  for (auto& [name, boxes] : boxes_)
    std::sort(boxes.begin(), boxes.end(),
              [](const auto& a, const auto& b) { return a.range.begin < b.range.begin; });
}

void CheckpointReader::damaged(const FileRecord& file, std::uint64_t begin, std::uint64_t end,
                               std::string fact) const {
  throw DamageError({file.path, begin, end, std::move(fact)}, folder_.string());
}

const TensorRecord* CheckpointReader::find(std::string_view tensor) const {
  for (const Part part : {Part::model, Part::optim})
    if (const auto at = manifest_.tensors(part).find(tensor); at != manifest_.tensors(part).end())
      return &at->second;
  return nullptr;
}

void CheckpointReader::check_size(const FileRecord& file) const {
  const storage::FileStatus status = files_->status(folder_ / file.path);
  if (status.kind == storage::FileKind::missing) damaged(file, 0, file.bytes, "it is missing");
  if (status.kind != storage::FileKind::file)
    damaged(file, 0, file.bytes, "it is not a regular file");
  if (status.bytes != file.bytes)
    damaged(file, std::min(status.bytes, file.bytes), std::max(status.bytes, file.bytes),
            fmt::format("it has {} bytes, the manifest says {}", status.bytes, file.bytes));
}

std::unique_ptr<storage::InputFile> CheckpointReader::open(const FileRecord& file) const {
  check_size(file);
  try {
    return files_->open(folder_, file.path, kManifestFile);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    damaged(file, 0, file.bytes, error.fact());  // a link, or no regular file any more
  }
}

CheckpointReader::StoredBox& CheckpointReader::stored(const BoxRecord& box) {
  std::vector<StoredBox>& boxes = boxes_.find(box.tensor)->second;
  const std::int64_t begin = flat_range(*find(box.tensor), box)->begin;
  return *std::lower_bound(
      boxes.begin(), boxes.end(), begin,
      [](const StoredBox& other, std::int64_t at) { return other.range.begin < at; });
}

void CheckpointReader::check_presence() const {
  for (const FileRecord& file : manifest_.files) check_size(file);
}

CheckpointReader::Shard& CheckpointReader::opened(std::size_t file) {
  Shard& shard = shards_[file];
  if (!shard.input) {
    if (num_open_ == kMaxOpenFiles) {
      for (Shard& other : shards_) other.input.reset();
      num_open_ = 0;
    }
    open_shard(file, shard);
  }
  return shard;
}

void CheckpointReader::open_shard(std::size_t file, Shard& shard) {
  const FileRecord& record = manifest_.files[file];
  auto input = open(record);
  if (!shard.placed) {
    std::uint64_t header_bytes = 0;
    if (record.bytes < 8) damaged(record, 0, record.bytes, "it is too short for a header");
    input->read(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
    if (header_bytes > std::min(storage::kMaxHeaderBytes, record.bytes - 8))
      damaged(record, 0, 8, fmt::format("a header of {} bytes", header_bytes));
    std::string header(8 + static_cast<std::size_t>(header_bytes), '\0');
    input->read(0, std::as_writable_bytes(std::span(header.data(), header.size())));
    if (const std::uint32_t crc = crc32c(header); crc != record.crc32c)
      damaged(record, 0, header.size(),
              fmt::format("header_crc32c is {:08x}, the manifest says {:08x}", crc, record.crc32c));
    place_boxes(file, shard, header);
  }
  shard.input = std::move(input);
  ++num_open_;
}

void CheckpointReader::place_boxes(std::size_t file, Shard& shard, const std::string& header) {
  const FileRecord& record = manifest_.files[file];
  const auto bytes = std::as_bytes(std::span(header.data(), header.size()));
  storage::SafetensorsHeader parsed;
  try {
    parsed = storage::parse_safetensors_header(bytes, record.bytes, record.path);
  } catch (const Error& error) {
    damaged(record, 0, header.size(), error.fact());
  }
  auto refuse = [&](std::string_view name) {
    damaged(record, 0, header.size(),
            fmt::format("the manifest and the header differ in \"{:.80}\"", name));
  };
  if (parsed.tensors.size() != record.boxes.size()) refuse("the number of tensors");
  for (const BoxRecord& box : record.boxes) {
    const auto at = std::lower_bound(
        parsed.tensors.begin(), parsed.tensors.end(), box.tensor,
        [](const auto& tensor, const std::string& name) { return tensor.name < name; });
    if (at == parsed.tensors.end() || at->name != box.tensor || at->shape != box.shape ||
        at->dtype != find(box.tensor)->dtype)
      refuse(box.tensor);
    stored(box).offset = parsed.data_begin + at->begin;
  }
  shard.placed = true;
}

void CheckpointReader::compare(const StoredBox& box, std::uint32_t crc) const {
  if (crc != box.crc32c)
    damaged(manifest_.files[box.file], box.offset, box.offset + box.bytes(),
            fmt::format("crc32c is {:08x}, the manifest says {:08x}", crc, box.crc32c));
}

// Takes `wanted` of the box; the first time all of it is read, for its CRC.
void CheckpointReader::read_box(StoredBox& box, Range wanted, std::span<std::byte> out) {
  Shard& shard = opened(box.file);
  const failpoint::Action action = failpoint::pass("load.box.read");
  fail_if_asked(action, folder_ / manifest_.files[box.file].path);
  const auto skip_bytes =
      static_cast<std::uint64_t>(wanted.begin - box.range.begin) * box.item_bytes;
  if (box.checked) return shard.input->read(box.offset + skip_bytes, out);

  std::vector<std::byte> block(std::min<std::uint64_t>(kBoxPieceBytes, box.bytes()));
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < box.bytes(); at += block.size()) {
    const auto piece = std::span(block).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), box.bytes() - at)));
    shard.input->read(box.offset + at, piece);
    crc = crc32c(piece, crc);
    const std::uint64_t from = std::max(at, skip_bytes);
    const std::uint64_t to = std::min(at + piece.size(), skip_bytes + out.size());
    if (from < to)
      std::memcpy(out.data() + (from - skip_bytes), piece.data() + (from - at), to - from);
  }
  if (action != failpoint::Action::skip) compare(box, crc);
  box.checked = true;
}

void CheckpointReader::read(std::string_view tensor, std::int64_t begin, std::int64_t count,
                            std::span<std::byte> out) {
  const TensorRecord* const record = find(tensor);
  WMTP_CHECK(record, fmt::format("{} holds no tensor {}", folder_.string(), tensor));
  const Range wanted{begin, begin + count};
  const std::size_t item = storage::bits_of(record->dtype) / 8;
  WMTP_CHECK(begin >= 0 && count >= 0 && wanted.end <= storage::numel(record->shape) &&
                 out.size() == static_cast<std::size_t>(count) * item,
             fmt::format("elements {}..{} of {}", begin, wanted.end, tensor));
  const auto found = boxes_.find(tensor);
  if (count == 0 || found == boxes_.end()) return;
  auto box = std::upper_bound(found->second.begin(), found->second.end(), begin,
                              [](std::int64_t at, const auto& b) { return at < b.range.end; });
  for (; box != found->second.end() && box->range.begin < wanted.end; ++box) {
    const Range part = layout::intersect(box->range, wanted);
    read_box(*box, part,
             out.subspan(static_cast<std::size_t>(part.begin - begin) * item,
                         static_cast<std::size_t>(part.size()) * item));
  }
}

std::string CheckpointReader::text(std::string_view path) {
  const FileRecord* const file = manifest_.find(path);
  if (!file || file->is_shard())
    throw Error(ErrorKind::checkpoint, "checkpoint",
                fmt::format("{} holds no {}", folder_.string(), path));
  const auto input = open(*file);  // first: the file must be as long as its entry says
  std::string bytes(static_cast<std::size_t>(file->bytes), '\0');
  input->read(0, std::as_writable_bytes(std::span(bytes.data(), bytes.size())));
  if (const std::uint32_t crc = crc32c(bytes); crc != file->crc32c)
    damaged(*file, 0, file->bytes,
            fmt::format("crc32c is {:08x}, the manifest says {:08x}", crc, file->crc32c));
  return bytes;
}

}  // namespace wmtp::checkpoint
