#include "wmtp/weights/ranged/ranged_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/storage/safetensors_header.h"
#include "wmtp/weights/safetensors_tensor.h"
#include "wmtp/weights/weight_index.h"

namespace wmtp::weights {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxRangedIndexBytes = std::uint64_t{64} << 20;
constexpr std::int64_t kConvertedElements = std::int64_t{1} << 22;
constexpr const char* kIndexName = "model.safetensors.index.json";

storage::SafetensorsHeader read_ranged_header(const storage::InputFile& input,
                                              const std::string& origin) {
  std::vector<std::byte> front(std::min(kLengthBytes, input.size()));
  input.read(0, front);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < front.size(); ++i)
    length |= std::to_integer<std::uint64_t>(front[i]) << (8 * i);
  // A length that cannot be is the parser's to refuse: nothing is read or allocated for it.
  if (front.size() == kLengthBytes && length <= storage::kMaxHeaderBytes &&
      length <= input.size() - kLengthBytes) {
    front.resize(static_cast<std::size_t>(kLengthBytes + length));
    input.read(0, front);
  }
  return storage::parse_safetensors_header(front, input.size(), origin);
}

// The tensors of one file, or of those that an index gives to it. THREADS: as its InputFile, any.
class RangedSource final : public WeightSource {
 public:
  RangedSource(std::unique_ptr<storage::InputFile> input, std::string path)
      : input_(std::move(input)),
        path_(std::move(path)),
        header_(read_ranged_header(*input_, path_)) {}

  // Those alone.
  void keep(std::vector<std::string> names, std::string_view index) {
    std::sort(names.begin(), names.end());
    for (const std::string& name : names)
      if (!find(name))
        throw Error(
            ErrorKind::data, "checkpoint",
            fmt::format("{} places tensor {} in {}, which does not hold it", index, name, path_));
    const std::size_t num_before = header_.tensors.size();
    std::erase_if(header_.tensors, [&names](const StoredTensor& tensor) {
      return !std::binary_search(names.begin(), names.end(), tensor.name);
    });
    if (header_.tensors.size() < num_before)
      log::warn("checkpoint", "{}: {} tensors are not in the index and are skipped", path_,
                num_before - header_.tensors.size());
  }

  using WeightSource::read;
  std::span<const StoredTensor> tensors() const override { return header_.tensors; }
  std::string file_of(const StoredTensor&) const override { return path_; }

  void read(const StoredTensor& tensor, std::int64_t element_begin, Tensor dst) const override {
    WMTP_CHECK(dst.is_contiguous() && dst.device().is_cpu(),
               "the target must be a contiguous CPU tensor");
    WMTP_CHECK(element_begin >= 0 && element_begin + dst.numel() <= numel(tensor.shape),
               fmt::format("elements {}..{} of {} {}", element_begin, element_begin + dst.numel(),
                           tensor.name, shape_text(tensor.shape)));
    if (dst.numel() == 0) return;
    if (to_dtype(tensor.dtype) == dst.scalar_type())
      input_->read(place_of(tensor, element_begin),
                   {static_cast<std::byte*>(dst.data_ptr()), dst.nbytes()});
    else
      read_converted(tensor, element_begin, dst.view({-1}));
  }

 private:
  std::uint64_t place_of(const StoredTensor& tensor, std::int64_t element) const {
    return header_.data_begin + tensor.begin +
           static_cast<std::uint64_t>(element) * (bits_of(tensor.dtype) / 8);
  }

  void read_converted(const StoredTensor& tensor, std::int64_t begin, const Tensor& dst) const {
    for (std::int64_t done = 0; done < dst.numel(); done += kConvertedElements) {
      StoredTensor piece = tensor;
      piece.shape = {std::min(kConvertedElements, dst.numel() - done)};
      std::vector<std::byte> bytes(static_cast<std::size_t>(piece.shape[0]) *
                                   (bits_of(tensor.dtype) / 8));
      input_->read(place_of(tensor, begin + done), bytes);
      copy_elements(piece, bytes, 0, dst.narrow(0, done, piece.shape[0]));
    }
  }

  std::unique_ptr<storage::InputFile> input_;
  std::string path_;
  storage::SafetensorsHeader header_;
};

std::unique_ptr<RangedSource> open_source(const storage::FileSystem& files, const fs::path& folder,
                                          std::string_view name, std::string_view origin) {
  return std::make_unique<RangedSource>(files.open(folder, name, origin), (folder / name).string());
}

}  // namespace

std::unique_ptr<WeightSource> open_ranged_file(const storage::FileSystem& files,
                                               const fs::path& folder, std::string_view name,
                                               std::string_view origin) {
  return open_source(files, folder, name, origin);
}

std::unique_ptr<WeightSource> open_ranged_weights(const storage::FileSystem& files,
                                                  const fs::path& folder) {
  const auto has = [&](const char* name) {
    return files.status(folder / name).kind == storage::FileKind::file;
  };
  if (has("model.safetensors")) return open_source(files, folder, "model.safetensors", "it");
  if (has(kIndexName)) {
    const std::string index = (folder / kIndexName).string();
    std::vector<std::unique_ptr<WeightSource>> parts;
    for (auto& [name, tensors] : parse_weight_index(
             storage::read_text(files, folder, kIndexName, index, kMaxRangedIndexBytes), index)) {
      auto part = open_source(files, folder, name, index);
      part->keep(tensors, index);
      parts.push_back(std::move(part));
    }
    return join(std::move(parts));
  }
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.pth",
                           "consolidated.00.pth", "checkpoint.pt"})
    if (has(name))
      throw Error(ErrorKind::config, "checkpoint",
                  fmt::format("{}: weights in {} cannot be read in ranges", folder.string(), name),
                  "copy the folder to a disk, or convert the weights to safetensors");
  return nullptr;
}

}  // namespace wmtp::weights
