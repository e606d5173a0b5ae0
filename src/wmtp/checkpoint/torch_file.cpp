#include "wmtp/checkpoint/torch_file.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "wmtp/checkpoint/safetensors_tensor.h"
#include "wmtp/checkpoint/torch_pickle.h"
#include "wmtp/checkpoint/torch_zip.h"
#include "wmtp/core/error.h"

namespace wmtp::checkpoint {
namespace {

// Where a training checkpoint keeps weights, and what its names lack.
constexpr std::pair<std::string_view, std::string_view> kStateDicts[] = {
    {"model_state_dict", ""},
    {"backbone_state_dict", ""},
    {"adapter_state_dict", ""},
    {"lora_state_dict", ""},
    {"extra_heads_state_dict", "extra_heads."},
    {"value_head_state_dict", "value_head."},
};

bool is_contiguous(const PickledTensor& tensor) {
  std::int64_t expected = 1;
  for (std::size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

class TorchFileSource final : public WeightSource {
 public:
  explicit TorchFileSource(storage::MappedFile file) : zip_(std::move(file)) {
    const ZipEntry* pickle = zip_.find("data.pkl");
    if (!pickle) refuse("it has no data.pkl");
    zip_.check_crc(*pickle);
    tree_ = parse_torch_pickle(zip_.bytes(*pickle), zip_.origin());
    collect();
    std::sort(entries_.begin(), entries_.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    for (const Entry& entry : entries_) add(entry);
  }

  using WeightSource::read;
  std::span<const StoredTensor> tensors() const override { return tensors_; }
  std::string file_of(const StoredTensor&) const override { return zip_.origin(); }

  void read(const StoredTensor& tensor, std::int64_t element_begin, Tensor dst) const override {
    const PickledTensor& source = pickled(tensor);
    const auto storage = checked_storage(source.storage_key);
    const std::size_t item_bytes = bits_of(source.dtype) / 8;
    const auto from = storage.subspan(static_cast<std::size_t>(source.offset) * item_bytes);
    if (is_contiguous(source))
      copy_elements(tensor, from, element_begin, std::move(dst));
    else
      read_strided(source, from, element_begin, dst);
  }

 private:
  struct Entry {
    std::string name;
    std::int64_t tensor;
  };

  [[noreturn]] void refuse(std::string_view fact, ErrorKind kind = ErrorKind::data) const {
    throw Error(kind, "checkpoint", fmt::format("{}: {}", zip_.origin(), fact));
  }

  void collect() {
    bool nested = false;
    for (const auto& [key, prefix] : kStateDicts)
      if (const auto dict = tree_.lookup(tree_.root, key)) {
        nested = true;
        collect_from(*dict, prefix);
      }
    if (!nested) collect_from(tree_.root, "");
    if (entries_.empty()) refuse("it holds no state dict with tensors", ErrorKind::config);
  }

  void collect_from(std::uint32_t dict, std::string_view prefix) {
    const PickleNode& node = tree_[dict];
    if (node.kind != PickleKind::dict) return;
    for (std::size_t i = 0; i + 1 < node.items.size(); i += 2) {
      const PickleNode& key = tree_[node.items[i]];
      const PickleNode& value = tree_[node.items[i + 1]];
      if (key.kind != PickleKind::text || value.kind != PickleKind::tensor) continue;
      std::string name = clean_name(key.text);
      if (!name.starts_with(prefix)) name.insert(0, prefix);
      entries_.push_back({std::move(name), value.integer});
    }
  }

  void add(const Entry& entry) {
    if (!tensors_.empty() && tensors_.back().name == entry.name)
      refuse(fmt::format("tensor {} occurs twice", entry.name));
    const PickledTensor& source = tree_.tensors[static_cast<std::size_t>(entry.tensor)];
    const ZipEntry* storage = zip_.find("data/" + source.storage_key);
    if (!storage)
      refuse(fmt::format("tensor {} lies in storage {:.40}, which is not there", entry.name,
                         source.storage_key));
    const auto bytes = tensor_bytes(source.dtype, std::span(&source.storage_numel, 1));
    if (!bytes || *bytes != storage->size)
      refuse(fmt::format("storage {} claims {} {} elements, its entry has {} bytes",
                         source.storage_key, source.storage_numel,
                         checkpoint::name_of(source.dtype), storage->size));
    tensors_.push_back({entry.name, source.dtype, source.shape, 0, 0});
  }

  const PickledTensor& pickled(const StoredTensor& tensor) const {
    const auto index = static_cast<std::size_t>(&tensor - tensors_.data());
    return tree_.tensors[static_cast<std::size_t>(entries_[index].tensor)];
  }

  std::span<const std::byte> checked_storage(const std::string& key) const {
    const ZipEntry* entry = zip_.find("data/" + key);
    {
      const std::lock_guard lock(mutex_);
      if (checked_.contains(key)) return zip_.bytes(*entry);
    }
    zip_.check_crc(*entry);
    const std::lock_guard lock(mutex_);
    checked_.insert(key);
    return zip_.bytes(*entry);
  }

  // The storage's elements from `from` on, copied to where they are aligned, then walked by
  // strides.
  static void read_strided(const PickledTensor& source, std::span<const std::byte> from,
                           std::int64_t element_begin, const Tensor& dst) {
    const std::int64_t available = source.storage_numel - source.offset;
    const Tensor flat = at::empty({available}, at::TensorOptions().dtype(*to_dtype(source.dtype)));
    copy_elements({"", source.dtype, {available}, 0, 0}, from, 0, flat);
    const Tensor rows = flat.as_strided(source.shape, source.strides).contiguous().view({-1});
    dst.view({-1}).copy_(rows.narrow(0, element_begin, dst.numel()));
  }

  TorchZip zip_;
  PickleTree tree_;
  std::vector<Entry> entries_;         // sorted by name
  std::vector<StoredTensor> tensors_;  // parallel to entries_
  mutable std::mutex mutex_;
  mutable std::set<std::string> checked_;
};

void erase_all(std::string& text, std::string_view part) {
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at)) {
    const bool starts_component = at == 0 || text[at - 1] == '.';
    if (starts_component)
      text.erase(at, part.size());
    else
      at += part.size();
  }
}

}  // namespace

std::string clean_name(std::string_view name) {
  std::string clean(name);
  for (const std::string_view wrapper : {"_fsdp_wrapped_module.", "_checkpoint_wrapped_module.",
                                         "_orig_mod.", "module.", "transformer."})
    erase_all(clean, wrapper);
  if (clean.starts_with("value_head.")) return clean;
  constexpr std::string_view kWrapped = ".linear.weight";
  if (clean.ends_with(kWrapped))
    clean.replace(clean.size() - kWrapped.size(), kWrapped.size(), ".weight");
  if (clean.ends_with(".lora_A") || clean.ends_with(".lora_B")) clean += ".weight";
  return clean;
}

std::unique_ptr<WeightSource> open_torch_file(storage::MappedFile file) {
  return std::make_unique<TorchFileSource>(std::move(file));
}

}  // namespace wmtp::checkpoint
