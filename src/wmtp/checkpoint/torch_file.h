// .pt, .pth and .bin files of torch.save as a source of weights; nothing in them is ever executed.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "wmtp/checkpoint/weight_source.h"
#include "wmtp/storage/mapped_file.h"

namespace wmtp::checkpoint {

// The tensors of a bare state dict, or of the state dicts inside a training checkpoint of the
// Python project (model, backbone, adapters, extra heads, value head; optimizer states are left
// out), under cleaned names. A storage's CRC-32 is checked when it is first read.
std::unique_ptr<WeightSource> open_torch_file(storage::MappedFile file);

// Wrapper prefixes off, adapter names as wmtp spells them.
std::string clean_name(std::string_view name);

}  // namespace wmtp::checkpoint
