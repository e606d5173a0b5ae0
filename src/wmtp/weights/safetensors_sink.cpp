#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/weights/new_file.h"
#include "wmtp/weights/tensor_sink.h"

namespace wmtp::weights {
namespace {

storage::SafetensorsPlan plan_of(std::vector<StoredTensor> tensors, Metadata metadata) {
  metadata.emplace("format", "pt");  // transformers 4 refuses files without it
  return plan_safetensors(std::move(tensors), metadata);
}

class SafetensorsSink final : public TensorSink {
 public:
  SafetensorsSink(const std::filesystem::path& path, storage::SafetensorsPlan plan, unsigned mode)
      : file_(path, mode),
        tensors_(std::move(plan.tensors)),
        data_begin_(plan.header.size()),
        missing_(tensors_.size()) {
    file_.reserve(data_begin_ + plan.data_bytes);
    file_.append(std::as_bytes(std::span(plan.header.data(), plan.header.size())));
    std::sort(tensors_.begin(), tensors_.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    written_.assign(tensors_.size(), false);
  }

  void put(std::string_view name, std::span<const std::byte> bytes) override {
    const auto at = std::lower_bound(
        tensors_.begin(), tensors_.end(), name,
        [](const auto& tensor, std::string_view key) { return tensor.name < key; });
    const auto index = static_cast<std::size_t>(at - tensors_.begin());
    WMTP_CHECK(at != tensors_.end() && at->name == name && !written_[index] &&
                   bytes.size() == at->end - at->begin,
               fmt::format("{}: tensor {} with {} bytes was not announced, or came twice",
                           file_.path().string(), name, bytes.size()));
    file_.write_at(data_begin_ + at->begin, bytes);
    written_[index] = true;
    --missing_;
  }

  void finish() override {
    WMTP_CHECK(missing_ == 0,
               fmt::format("{}: {} tensors are missing", file_.path().string(), missing_));
    file_.finish();
  }

 private:
  NewFile file_;
  std::vector<StoredTensor> tensors_;  // sorted by name
  std::uint64_t data_begin_;
  std::vector<bool> written_;  // parallel to tensors_
  std::size_t missing_;
};

}  // namespace

std::unique_ptr<TensorSink> create_safetensors(const std::filesystem::path& path,
                                               std::vector<StoredTensor> tensors, Metadata metadata,
                                               unsigned mode) {
  return std::make_unique<SafetensorsSink>(path, plan_of(std::move(tensors), std::move(metadata)),
                                           mode);
}

}  // namespace wmtp::weights
