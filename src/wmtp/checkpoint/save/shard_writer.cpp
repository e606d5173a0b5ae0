#include "wmtp/checkpoint/save/shard_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <future>
#include <map>
#include <set>

#include "wmtp/checkpoint/format/guard.h"
#include "wmtp/checkpoint/format/manifest_text.h"
#include "wmtp/core/checksum.h"
#include "wmtp/core/error.h"
#include "wmtp/storage/safetensors_header.h"

namespace wmtp::checkpoint {
namespace {

using Bytes = std::span<const std::byte>;

// Below this a thread costs more than the hash.
constexpr std::size_t kThreadedHashBytes = std::size_t{1} << 20;
// Checksummed and written while the processor's cache still holds it.
constexpr std::size_t kWritePieceBytes = std::size_t{256} << 10;
constexpr std::size_t kHashPieceBytes = std::size_t{4} << 20;

using CheckCancelled = std::function<void()>;

std::uint64_t piece_bytes(const TensorPiece& piece) {
  return static_cast<std::uint64_t>(piece.range.size()) * storage::bits_of(piece.dtype) / 8;
}

// A part of a piece's bytes, a block at a time, wherever they are.
struct Content {
  const TensorPiece* piece;
  std::uint64_t first, size;  // within the piece

  template <class Take>
  void for_each_block(std::size_t block_bytes, Take&& take) const {
    std::vector<std::byte> copy;
    if (piece->read) copy.resize(std::min<std::uint64_t>(block_bytes, size));
    for (std::uint64_t done = 0; done < size;) {
      const auto num = static_cast<std::size_t>(std::min<std::uint64_t>(block_bytes, size - done));
      if (piece->read) piece->read(first + done, std::span(copy).first(num));
      take(piece->read ? Bytes(copy).first(num) : piece->bytes.subspan(first + done, num));
      done += num;
    }
  }
};

struct Box {
  const TensorPiece* piece;
  layout::RowBox place;
  Content content;
};

bool is_sharded_type(storage::StoredDtype dtype) {
  using enum storage::StoredDtype;
  return dtype == F16 || dtype == BF16 || dtype == F32 || dtype == F64 || dtype == U8;
}

std::map<int, std::vector<Box>> boxes_by_kind(std::span<const TensorPiece> pieces) {
  std::map<int, std::vector<Box>> kinds;
  for (const TensorPiece& piece : pieces) {
    const std::size_t item = storage::bits_of(piece.dtype) / 8;
    const layout::ParamSpec param{.name = piece.name, .shape = piece.shape};
    for (layout::RowBox& place : layout::row_boxes(param, piece.range)) {
      const auto begin =
          static_cast<std::uint64_t>(place.in_param.begin - piece.range.begin) * item;
      const auto size = static_cast<std::uint64_t>(place.in_param.size()) * item;
      kinds[place.kind].push_back({&piece, std::move(place), {&piece, begin, size}});
    }
  }
  return kinds;
}

storage::SafetensorsPlan plan_file(const std::vector<Box>& boxes) {
  std::vector<storage::StoredTensor> tensors;
  std::string places = "{";
  for (const Box& box : boxes) {
    tensors.push_back(
        {.name = box.piece->name, .dtype = box.piece->dtype, .shape = box.place.shape});
    append_string(places, box.piece->name);
    places += fmt::format(": {{\"saved_offsets\": [{}]}}, ", fmt::join(box.place.offsets, ", "));
  }
  places.replace(places.size() - 2, 2, "}");
  return storage::plan_safetensors(
      std::move(tensors),
      {{"format", "pt"}, {"DCP_VERSION", "1.0"}, {"DCP_SHARDING_INFO", places}});
}

// A file that is to be written; its SHA-256 is under way.
struct PlannedFile {
  FileRecord record;  // without checksums
  storage::SafetensorsPlan plan;
  std::vector<const Box*> boxes;  // in the order of the plan
  std::future<std::string> sha256 = {};
};

std::string hash_of(const std::string& header, const std::vector<Content>& contents,
                    const CheckCancelled& check_cancelled) {
  Sha256 hash;
  hash.update(header);
  for (const Content& content : contents)
    content.for_each_block(kHashPieceBytes, [&](Bytes block) {
      check_cancelled();
      hash.update(block);
    });
  return to_hex(hash.finish());
}

std::future<std::string> begin_hash(std::string header, std::vector<Content> contents,
                                    std::uint64_t num_bytes, CheckCancelled check_cancelled) {
  const auto policy = num_bytes < kThreadedHashBytes ? std::launch::deferred : std::launch::async;
  return std::async(policy, hash_of, std::move(header), std::move(contents),
                    std::move(check_cancelled));
}

// One shard file while it is written: counts the bytes, so that the failpoint of the middle
// stands in the middle.
class ShardFile {
 public:
  ShardFile(storage::FileSystem& files, std::filesystem::path path, std::uint64_t total_bytes,
            const CheckCancelled& check_cancelled)
      : path_(std::move(path)),
        half_(total_bytes / 2),
        check_cancelled_(check_cancelled),
        file_(files.create_file(path_)) {
    file_->expect(total_bytes);
  }

  std::uint32_t write(const Content& content) {
    std::uint32_t crc = 0;
    content.for_each_block(kWritePieceBytes, [&](Bytes block) {
      check_cancelled_();
      crc = crc32c(block, crc);
      write_block(block);
    });
    return crc;
  }

  std::uint32_t write(const std::string& header) {
    TensorPiece text;
    text.bytes = std::as_bytes(std::span(header.data(), header.size()));
    return write(Content{&text, 0, header.size()});
  }

  void finish() {
    fail_if_asked(failpoint::pass("save.shard.written"), path_);
    check_cancelled_();
    guarded(failpoint::pass("save.shard.fsync"), path_, [&] { file_->sync(); });
    file_->close();
    check_cancelled_();
    fail_if_asked(failpoint::pass("save.shard.closed"), path_);
  }

 private:
  void write_block(Bytes block) {
    if (left_out_) return;
    if (written_ <= half_ && written_ + block.size() > half_) {
      const auto before = static_cast<std::size_t>(half_ - written_);
      file_->write(block.first(before));
      written_ += before;
      block = block.subspan(before);
      const failpoint::Action action = failpoint::pass("save.shard.half");
      fail_if_asked(action, path_);
      left_out_ = action == failpoint::Action::skip;
      if (left_out_) return;
    }
    file_->write(block);
    written_ += block.size();
  }

  std::filesystem::path path_;
  std::uint64_t half_, written_ = 0;
  const CheckCancelled& check_cancelled_;
  std::unique_ptr<storage::OutputFile> file_;
  bool left_out_ = false;
};

PlannedFile plan_hashed(std::string name, const std::vector<Box>& boxes,
                        const CheckCancelled& check_cancelled) {
  PlannedFile file{.record = {}, .plan = plan_file(boxes), .boxes = {}};
  file.record.path = std::move(name);
  file.record.bytes = file.plan.header.size() + file.plan.data_bytes;
  std::map<std::string_view, const Box*> by_name;
  for (const Box& box : boxes) by_name[box.piece->name] = &box;
  std::vector<Content> contents;
  for (const storage::StoredTensor& tensor : file.plan.tensors) {
    file.boxes.push_back(by_name.at(tensor.name));
    contents.push_back(file.boxes.back()->content);
  }
  file.sha256 =
      begin_hash(file.plan.header, std::move(contents), file.record.bytes, check_cancelled);
  return file;
}

void write_file(const ShardContext& context, const std::filesystem::path& path, PlannedFile& file) {
  ShardFile out(context.files, path, file.record.bytes, context.check_cancelled);
  file.record.crc32c = out.write(file.plan.header);
  for (const Box* box : file.boxes)
    file.record.boxes.push_back(
        {box->piece->name, box->place.offsets, box->place.shape, out.write(box->content)});
  out.finish();
}

}  // namespace

void check_pieces(std::span<const TensorPiece> pieces) {
  std::set<std::string_view> names;
  for (const TensorPiece& piece : pieces) {
    const std::string who = "piece of " + piece.name;
    WMTP_CHECK(is_sharded_type(piece.dtype),
               who + ": sharded files hold floating-point tensors and bytes only");
    WMTP_CHECK(piece.shape.size() == 1 || piece.shape.size() == 2, who + ": rank 1 or 2");
    WMTP_CHECK(storage::tensor_bytes(piece.dtype, piece.shape), who + ": its size");
    WMTP_CHECK(0 <= piece.range.begin && piece.range.begin < piece.range.end &&
                   piece.range.end <= storage::numel(piece.shape),
               who + ": its range");
    WMTP_CHECK(piece.read ? piece.bytes.empty() : piece.bytes.size() == piece_bytes(piece),
               who + ": its bytes");
    WMTP_CHECK(names.insert(piece.name).second, who + ": a rank has one stretch of a tensor");
  }
}

TensorTable table_of(std::span<const TensorPiece> pieces) {
  TensorTable table;
  for (const TensorPiece& piece : pieces) table[piece.name] = {piece.dtype, piece.shape};
  return table;
}

std::uint64_t bytes_of(std::span<const TensorPiece> pieces) {
  std::uint64_t sum = 0;
  for (const TensorPiece& piece : pieces) sum += piece_bytes(piece);
  return sum;
}

std::vector<FileRecord> write_shards(const ShardContext& context,
                                     std::span<const TensorPiece> model,
                                     std::span<const TensorPiece> optim) {
  check_pieces(model);
  check_pieces(optim);
  const std::array parts{boxes_by_kind(model), boxes_by_kind(optim)};
  std::vector<PlannedFile> planned;
  for (const Part part : {Part::model, Part::optim})
    for (const auto& [kind, boxes] : parts[static_cast<std::size_t>(part)])
      planned.push_back(
          plan_hashed(fmt::format("{}/{}", name_of(part), shard_file_name(context.rank, kind)),
                      boxes, context.check_cancelled));
  std::vector<FileRecord> records;
  for (PlannedFile& file : planned) {
    const std::filesystem::path path = context.checkpoint / file.record.path;
    guarded(failpoint::pass("save.shard.open"), path, [&] { write_file(context, path, file); });
  }
  for (PlannedFile& file : planned) {
    file.record.sha256 = file.sha256.get();
    records.push_back(std::move(file.record));
  }
  return records;
}

}  // namespace wmtp::checkpoint
