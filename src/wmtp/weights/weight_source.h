// Named tensors that can be read in part: what a model folder, a checkpoint file or an archive
// offers to those who fill weights.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/kernels/nf4.h"
#include "wmtp/layout/name_map.h"
#include "wmtp/tensor/tensor.h"
#include "wmtp/weights/safetensors.h"
#include "wmtp/weights/stored_tensor.h"

namespace wmtp::weights {

// THREADS: const members may be called from several threads at once.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Sorted by name; begin and end mean nothing here.
  virtual std::span<const StoredTensor> tensors() const = 0;
  // Elements [element_begin, element_begin + dst.numel()) of the tensor, in row order, into the
  // contiguous CPU tensor `dst`, converted to its dtype. Only these elements are read from the
  // file.
  virtual void read(const StoredTensor& tensor, std::int64_t element_begin, Tensor dst) const = 0;
  virtual std::string file_of(const StoredTensor& tensor) const = 0;  // for messages
  // The same elements as bitsandbytes stored them (bitsandbytes/nf4_source.h); nothing where the
  // tensor is stored as numbers. Scales count from the tensor's first block. REQUIRES whole blocks:
  // both ends multiples of 64, or the tensor's.
  virtual std::optional<kernels::Nf4Weights> read_nf4(const StoredTensor& tensor,
                                                      std::int64_t element_begin,
                                                      std::int64_t count) const;
  virtual bool has_nf4(const StoredTensor& tensor) const;  // whether there is such a form

  const StoredTensor* find(std::string_view name) const;  // nullptr: not here
  // By name; Error config when there is no such tensor.
  void read(std::string_view name, std::int64_t element_begin, Tensor dst) const;
};

// The tensors of one file, or those of several that an index gives to each file.
class SafetensorsSource final : public WeightSource {
 public:
  explicit SafetensorsSource(SafetensorsFile file);
  struct Part {
    SafetensorsFile file;
    std::vector<std::string> names;  // of this file, to be taken
  };
  explicit SafetensorsSource(std::vector<Part> parts);

  using WeightSource::read;
  std::span<const StoredTensor> tensors() const override { return tensors_; }
  void read(const StoredTensor& tensor, std::int64_t element_begin, Tensor dst) const override;
  std::string file_of(const StoredTensor& tensor) const override;

 private:
  struct Place {
    std::size_t file;
    const StoredTensor* stored;
  };
  const Place& place(const StoredTensor& tensor) const;

  std::vector<SafetensorsFile> files_;
  std::vector<StoredTensor> tensors_;
  std::vector<Place> places_;  // parallel to tensors_
};

// `inner` under other names and with rotary rows brought into wmtp's order. Names the map does not
// know stay as they are; two names that become one are ErrorKind::data.
std::unique_ptr<WeightSource> rename(std::unique_ptr<WeightSource> inner,
                                     const layout::NameMap& map);
// All tensors of all parts; a name in two parts is ErrorKind::data.
std::unique_ptr<WeightSource> join(std::vector<std::unique_ptr<WeightSource>> parts);
// All tensors of both; a name in both is that of `over`.
std::unique_ptr<WeightSource> overlay(std::unique_ptr<WeightSource> under,
                                      std::unique_ptr<WeightSource> over);

}  // namespace wmtp::weights
