// .pt, .pth and .bin files of torch.save as a source of weights; nothing in them is ever executed.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "wmtp/storage/mapped_file.h"
#include "wmtp/weights/torch_checkpoint.h"
#include "wmtp/weights/weight_source.h"

namespace wmtp::weights {

// The tensors of a bare state dict, or of the state dicts inside a training checkpoint of the
// Python project (torch_checkpoint.h), under cleaned names. A storage's CRC-32 is checked when it
// is first read. `checkpoint`: where it goes what a training checkpoint says of itself.
std::unique_ptr<WeightSource> open_torch_file(storage::MappedFile file,
                                              std::optional<TorchCheckpoint>* checkpoint = nullptr);

// Wrapper prefixes off, adapter names as wmtp spells them.
std::string clean_name(std::string_view name);

}  // namespace wmtp::weights
