#include "wmtp/weights/weight_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "wmtp/core/error.h"
#include "wmtp/weights/safetensors_tensor.h"

namespace wmtp::weights {
namespace {

// Smaller reads are parts of something that is read on.
constexpr std::uint64_t kDropBytes = std::uint64_t{1} << 20;

bool by_name(const StoredTensor& a, const StoredTensor& b) {
  return a.name < b.name;
}

// A list of tensors sorted by name, each with the tensor of an inner source it stands for.
struct Entry {
  StoredTensor tensor;
  const WeightSource* inner;
  const StoredTensor* stored;
  std::int64_t interleaved_head_dim = 0;
};

class DerivedSource final : public WeightSource {
 public:
  DerivedSource(std::vector<std::unique_ptr<WeightSource>> inners, std::vector<Entry> entries)
      : inners_(std::move(inners)), entries_(std::move(entries)) {
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return by_name(a.tensor, b.tensor); });
    for (const Entry& entry : entries_) {
      if (!tensors_.empty() && tensors_.back().name == entry.tensor.name)
        throw Error(ErrorKind::data, "checkpoint",
                    fmt::format("tensor {} is there twice, in {} and in {}", entry.tensor.name,
                                file_of(tensors_.back()), entry.inner->file_of(*entry.stored)));
      tensors_.push_back(entry.tensor);
    }
  }

  std::span<const StoredTensor> tensors() const override { return tensors_; }

  void read(const StoredTensor& tensor, std::int64_t element_begin, Tensor dst) const override {
    const Entry& from = entry(tensor);
    if (from.interleaved_head_dim == 0)
      from.inner->read(*from.stored, element_begin, std::move(dst));
    else
      read_permuted(from, element_begin, dst.view({-1}));
  }

  std::string file_of(const StoredTensor& tensor) const override {
    const Entry& from = entry(tensor);
    return from.inner->file_of(*from.stored);
  }

  // Rows in another order have other blocks.
  std::optional<kernels::Nf4Weights> read_nf4(const StoredTensor& tensor,
                                              std::int64_t element_begin,
                                              std::int64_t count) const override {
    const Entry& from = entry(tensor);
    if (from.interleaved_head_dim > 0) return std::nullopt;
    return from.inner->read_nf4(*from.stored, element_begin, count);
  }

  bool has_nf4(const StoredTensor& tensor) const override {
    const Entry& from = entry(tensor);
    return from.interleaved_head_dim == 0 && from.inner->has_nf4(*from.stored);
  }

 private:
  const Entry& entry(const StoredTensor& tensor) const {
    return entries_[static_cast<std::size_t>(&tensor - tensors_.data())];
  }

  static void read_permuted(const Entry& from, std::int64_t element_begin, const Tensor& dst) {
    const std::int64_t columns = numel(std::span(from.tensor.shape).subspan(1));
    for (std::int64_t done = 0; done < dst.numel();) {
      const std::int64_t at = element_begin + done;
      const std::int64_t row = at / columns, column = at % columns;
      const std::int64_t count = std::min(columns - column, dst.numel() - done);
      const std::int64_t stored_row = layout::interleaved_row(row, from.interleaved_head_dim);
      from.inner->read(*from.stored, stored_row * columns + column, dst.narrow(0, done, count));
      done += count;
    }
  }

  std::vector<std::unique_ptr<WeightSource>> inners_;
  std::vector<Entry> entries_;
  std::vector<StoredTensor> tensors_;  // parallel to entries_
};

}  // namespace

const StoredTensor* WeightSource::find(std::string_view name) const {
  const auto list = tensors();
  const auto at =
      std::lower_bound(list.begin(), list.end(), name,
                       [](const StoredTensor& t, std::string_view key) { return t.name < key; });
  return at != list.end() && at->name == name ? &*at : nullptr;
}

void WeightSource::read(std::string_view name, std::int64_t element_begin, Tensor dst) const {
  const StoredTensor* tensor = find(name);
  if (!tensor)
    throw Error(ErrorKind::config, "checkpoint", fmt::format("there is no tensor {}", name));
  read(*tensor, element_begin, std::move(dst));
}

std::optional<kernels::Nf4Weights> WeightSource::read_nf4(const StoredTensor&, std::int64_t,
                                                          std::int64_t) const {
  return std::nullopt;
}

bool WeightSource::has_nf4(const StoredTensor&) const {
  return false;
}

SafetensorsSource::SafetensorsSource(SafetensorsFile file) {
  files_.push_back(std::move(file));
  tensors_.assign(files_[0].tensors().begin(), files_[0].tensors().end());
  for (const StoredTensor& tensor : files_[0].tensors()) places_.push_back({0, &tensor});
}

SafetensorsSource::SafetensorsSource(std::vector<Part> parts) {
  std::vector<Place> places;
  files_.reserve(parts.size());  // places point into the files
  for (Part& part : parts) {
    files_.push_back(std::move(part.file));
    const SafetensorsFile& file = files_.back();
    for (const std::string& name : part.names) {
      const StoredTensor* stored = file.find(name);
      if (!stored)
        throw Error(ErrorKind::data, "checkpoint",
                    fmt::format("the index places tensor {} in {}, which does not hold it", name,
                                file.file().path().string()));
      places.push_back({files_.size() - 1, stored});
    }
  }
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return by_name(*a.stored, *b.stored); });
  for (const Place& place : places) tensors_.push_back(*place.stored);
  places_ = std::move(places);
}

const SafetensorsSource::Place& SafetensorsSource::place(const StoredTensor& tensor) const {
  return places_[static_cast<std::size_t>(&tensor - tensors_.data())];
}

void SafetensorsSource::read(const StoredTensor& tensor, std::int64_t element_begin,
                             Tensor dst) const {
  const Place& from = place(tensor);
  const SafetensorsFile& file = files_[from.file];
  const std::int64_t count = dst.numel();
  copy_elements(*from.stored, file.bytes(*from.stored), element_begin, std::move(dst));
  // What was copied need not stay resident: a model would otherwise count twice.
  const std::uint64_t item_bytes = bits_of(tensor.dtype) / 8;
  const std::uint64_t begin = file.data_begin() + from.stored->begin +
                              static_cast<std::uint64_t>(element_begin) * item_bytes;
  const std::uint64_t bytes = static_cast<std::uint64_t>(count) * item_bytes;
  if (bytes >= kDropBytes) file.file().drop(begin, begin + bytes);
}

std::string SafetensorsSource::file_of(const StoredTensor& tensor) const {
  return files_[place(tensor).file].file().path().string();
}

std::unique_ptr<WeightSource> rename(std::unique_ptr<WeightSource> inner,
                                     const layout::NameMap& map) {
  std::vector<Entry> entries;
  for (const StoredTensor& stored : inner->tensors()) {
    Entry entry{stored, inner.get(), &stored};
    if (auto mapped = map(stored.name)) {
      entry.tensor.name = std::move(mapped->name);
      entry.interleaved_head_dim = mapped->interleaved_head_dim;
    }
    const std::int64_t head = entry.interleaved_head_dim;
    if (head > 0 && (stored.shape.empty() || head % 2 != 0 || stored.shape[0] % head != 0))
      throw Error(ErrorKind::config, "checkpoint",
                  fmt::format("tensor {} {} does not consist of heads of {} rows", stored.name,
                              shape_text(stored.shape), head));
    entries.push_back(std::move(entry));
  }
  std::vector<std::unique_ptr<WeightSource>> inners;
  inners.push_back(std::move(inner));
  return std::make_unique<DerivedSource>(std::move(inners), std::move(entries));
}

std::unique_ptr<WeightSource> join(std::vector<std::unique_ptr<WeightSource>> parts) {
  std::vector<Entry> entries;
  for (const auto& part : parts)
    for (const StoredTensor& stored : part->tensors())
      entries.push_back({stored, part.get(), &stored});
  return std::make_unique<DerivedSource>(std::move(parts), std::move(entries));
}

std::unique_ptr<WeightSource> overlay(std::unique_ptr<WeightSource> under,
                                      std::unique_ptr<WeightSource> over) {
  std::vector<Entry> entries;
  for (const StoredTensor& stored : over->tensors())
    entries.push_back({stored, over.get(), &stored});
  for (const StoredTensor& stored : under->tensors())
    if (!over->find(stored.name)) entries.push_back({stored, under.get(), &stored});
  std::vector<std::unique_ptr<WeightSource>> parts;
  parts.push_back(std::move(under));
  parts.push_back(std::move(over));
  return std::make_unique<DerivedSource>(std::move(parts), std::move(entries));
}

}  // namespace wmtp::weights
