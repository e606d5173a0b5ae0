// params.json of Meta's releases (Llama 2 and 3, LLaMA-MTP).
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "wmtp/core/json.h"
#include "wmtp/model/model_config.h"

namespace wmtp::model {

// Keys may sit under "model". `embedding_rows` (of the weights beside the file) stands in for a
// vocab_size of -1 or none; without it such a file is refused. Unknown keys are a warning.
ModelConfig parse_meta_params(const Json& json, std::string_view origin,
                              std::optional<std::int64_t> embedding_rows = {});
ModelConfig read_meta_params(const std::filesystem::path& path,
                             std::optional<std::int64_t> embedding_rows = {});

// FFN width as Meta derives it: int(multiplier * int(8 dim / 3)) rounded up to `multiple_of`.
std::int64_t meta_ffn_dim(std::int64_t dim, std::int64_t multiple_of,
                          std::optional<double> multiplier = {});

}  // namespace wmtp::model
