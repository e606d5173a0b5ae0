#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/from_blob.h>
#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <exception>
#include <map>

#include "wmtp/core/error.h"
#include "wmtp/weights/new_file.h"
#include "wmtp/weights/safetensors_tensor.h"
#include "wmtp/weights/tensor_sink.h"

namespace wmtp::weights {
namespace {

using StringDict = c10::impl::GenericDict;

StringDict empty_dict() {
  return StringDict(c10::StringType::get(), c10::AnyType::get());
}

// The pickle names storages by number, in the order of the tensors. The pickler reads sizes and
// types only, so the tensors it sees point at nothing of their own.
std::string pickle_of(const std::vector<StoredTensor>& tensors, const TorchFileFacts& facts) {
  static std::byte nothing{};
  StringDict state = empty_dict(), root = empty_dict();
  for (const StoredTensor& tensor : tensors)
    state.insert(tensor.name, at::from_blob(&nothing, tensor.shape,
                                            at::TensorOptions().dtype(*to_dtype(tensor.dtype))));
  root.insert("model_state_dict", state);
  root.insert("total_steps", facts.total_steps);
  root.insert("start_batch_index", facts.start_batch_index);
  std::string text;
  // Without type tags: those are calls that weights_only refuses.
  torch::jit::Pickler pickler(
      [&text](const char* data, std::size_t size) { text.append(data, size); }, nullptr, nullptr,
      nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(root);
  pickler.stop();
  WMTP_CHECK(pickler.tensorData().size() == tensors.size(), "the pickler left out tensors");
  return text;
}

class TorchFileSink final : public TensorSink {
 public:
  TorchFileSink(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors,
                const TorchFileFacts& facts, unsigned mode)
      : file_(path, mode),
        zip_([this](const void* data, std::size_t size) { return append(data, size); }) {
    for (const StoredTensor& tensor : tensors)
      waiting_.emplace(tensor.name,
                       Waiting{waiting_.size(), *tensor_bytes(tensor.dtype, tensor.shape)});
    WMTP_CHECK(waiting_.size() == tensors.size(), "a tensor is announced twice");
    const std::string pickle = pickle_of(tensors, facts);
    record("data.pkl", std::as_bytes(std::span(pickle.data(), pickle.size())));
    record("byteorder", std::as_bytes(std::span("little", 6)));
  }

  void put(std::string_view name, std::span<const std::byte> bytes) override {
    const auto at = waiting_.find(name);
    WMTP_CHECK(at != waiting_.end() && at->second.bytes == bytes.size(),
               fmt::format("{}: tensor {} with {} bytes was not announced, or came twice",
                           file_.path().string(), name, bytes.size()));
    record(fmt::format("data/{}", at->second.key), bytes);
    waiting_.erase(at);
  }

  void finish() override {
    WMTP_CHECK(waiting_.empty(),
               fmt::format("{}: {} tensors are missing", file_.path().string(), waiting_.size()));
    zip_.writeEndOfFile();
    rethrow();
    file_.finish();
  }

 private:
  struct Waiting {
    std::size_t key;
    std::uint64_t bytes;
  };

  // LibTorch's writer finishes the archive in its destructor and may not throw there, so it is
  // told that all is well and the failure waits.
  std::size_t append(const void* data, std::size_t size) {
    if (failure_) return size;
    try {
      file_.append({static_cast<const std::byte*>(data), size});
    } catch (...) {
      failure_ = std::current_exception();
    }
    return size;
  }

  void record(const std::string& name, std::span<const std::byte> bytes) {
    zip_.writeRecord(name, bytes.data(), bytes.size());
    rethrow();
  }

  void rethrow() {
    if (failure_) std::rethrow_exception(failure_);
  }

  NewFile file_;
  std::exception_ptr failure_;
  std::map<std::string, Waiting, std::less<>> waiting_;
  caffe2::serialize::PyTorchStreamWriter zip_;  // last: it writes while it is destroyed
};

}  // namespace

std::unique_ptr<TensorSink> create_torch_file(const std::filesystem::path& path,
                                              std::vector<StoredTensor> tensors,
                                              const TorchFileFacts& facts, unsigned mode) {
  return std::make_unique<TorchFileSink>(path, tensors, facts, mode);
}

}  // namespace wmtp::weights
