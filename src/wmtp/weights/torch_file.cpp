#include "wmtp/weights/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "wmtp/core/error.h"
#include "wmtp/weights/torch_pickle.h"
#include "wmtp/weights/torch_view.h"
#include "wmtp/weights/torch_zip.h"

namespace wmtp::weights {
namespace {

// Smaller reads are parts of something that is read on.
constexpr std::uint64_t kTorchDropBytes = std::uint64_t{1} << 20;

bool is_same_view(const PickledTensor& a, const PickledTensor& b) {
  return a.storage_key == b.storage_key && a.dtype == b.dtype && a.offset == b.offset &&
         a.shape == b.shape && a.strides == b.strides;
}

class TorchFileSource final : public WeightSource {
 public:
  explicit TorchFileSource(storage::MappedFile file) : zip_(std::move(file)) {
    const ZipEntry* pickle = zip_.find("data.pkl");
    if (!pickle) refuse("it has no data.pkl");
    zip_.check_crc(*pickle);
    tree_ = parse_torch_pickle(zip_.bytes(*pickle), zip_.origin());
    collect();
    for (const Entry& entry : entries_) add(entry);
  }

  std::optional<TorchCheckpoint> checkpoint() const { return read_torch_checkpoint(tree_); }

  using WeightSource::read;
  std::span<const StoredTensor> tensors() const override { return tensors_; }
  std::string file_of(const StoredTensor&) const override { return zip_.origin(); }

  void read(const StoredTensor& tensor, std::int64_t element_begin, Tensor dst) const override {
    const PickledTensor& view = pickled(tensor);
    const std::int64_t count = dst.numel();
    copy_view(view, checked_storage(view.storage_key), element_begin, dst);
    // What was copied need not stay resident: a model would otherwise count twice.
    const std::uint64_t item_bytes = bits_of(view.dtype) / 8;
    const std::uint64_t bytes = static_cast<std::uint64_t>(count) * item_bytes;
    if (bytes >= kTorchDropBytes && is_contiguous(view))
      zip_.drop(*zip_.find("data/" + view.storage_key),
                static_cast<std::uint64_t>(view.offset + element_begin) * item_bytes, bytes);
  }

 private:
  struct Entry {
    std::string name;
    std::int64_t tensor;
  };

  [[noreturn]] void refuse(std::string_view fact) const {
    throw Error(ErrorKind::data, "checkpoint", fmt::format("{}: {}", zip_.origin(), fact));
  }

  [[noreturn]] void refuse_without_weights() const {
    const std::string keys = torch_keys_text(tree_);
    throw Error(ErrorKind::config, "checkpoint",
                fmt::format("{}: none of its keys is a state dict that wmtp knows{}{}",
                            zip_.origin(), keys.empty() ? "" : ": ", keys),
                fmt::format("weights are read from {}, or from a bare state dict; optimizer states "
                            "are not",
                            known_state_dicts_text()));
  }

  // A tensor under the same name in two dicts of the file, as the Python project writes adapters
  // of extra heads, is one tensor.
  void collect() {
    for (const auto& [dict, prefix] : torch_state_dicts(tree_)) collect_from(dict, prefix);
    if (entries_.empty()) refuse_without_weights();
    std::sort(entries_.begin(), entries_.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    const auto same = [this](const Entry& a, const Entry& b) {
      return a.name == b.name && is_same_view(view_of(a), view_of(b));
    };
    entries_.erase(std::unique(entries_.begin(), entries_.end(), same), entries_.end());
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
    const PickledTensor& source = view_of(entry);
    const ZipEntry* storage = zip_.find("data/" + source.storage_key);
    if (!storage)
      refuse(fmt::format("tensor {} lies in storage {:.40}, which is not there", entry.name,
                         source.storage_key));
    const auto bytes = tensor_bytes(source.dtype, std::span(&source.storage_numel, 1));
    if (!bytes || *bytes != storage->size)
      refuse(fmt::format("storage {} claims {} {} elements, its entry has {} bytes",
                         source.storage_key, source.storage_numel, weights::name_of(source.dtype),
                         storage->size));
    tensors_.push_back({entry.name, source.dtype, source.shape, 0, 0});
  }

  const PickledTensor& view_of(const Entry& entry) const {
    return tree_.tensors[static_cast<std::size_t>(entry.tensor)];
  }
  const PickledTensor& pickled(const StoredTensor& tensor) const {
    return view_of(entries_[static_cast<std::size_t>(&tensor - tensors_.data())]);
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
  constexpr std::string_view kBackbone = "backbone.";
  if (clean.starts_with(kBackbone)) clean.erase(0, kBackbone.size());
  if (clean.starts_with("value_head.")) return clean;
  constexpr std::string_view kWrapped = ".linear.weight";
  if (clean.ends_with(kWrapped))
    clean.replace(clean.size() - kWrapped.size(), kWrapped.size(), ".weight");
  if (clean.ends_with(".lora_A") || clean.ends_with(".lora_B")) clean += ".weight";
  return clean;
}

std::unique_ptr<WeightSource> open_torch_file(storage::MappedFile file,
                                              std::optional<TorchCheckpoint>* checkpoint) {
  auto source = std::make_unique<TorchFileSource>(std::move(file));
  if (checkpoint) *checkpoint = source->checkpoint();
  return source;
}

}  // namespace wmtp::weights
