// JSON of files that other tools write (config.json, tokenizer.json, adapter_config.json ...). As
// strict as core/json.h but for one thing: integers beyond 64 bits are legal there, transformers
// writes 1000000000000000019884624838656 for "no limit". They become doubles, so a reader that
// wants an integer still refuses them by name.
#pragma once
#include <filesystem>
#include <string_view>

#include "wmtp/core/json.h"

namespace wmtp {

// Errors are ErrorKind::data.
Json parse_foreign_json(std::string_view text, std::string_view name,
                        const JsonLimits& limits = {});
Json read_foreign_json(const std::filesystem::path& path, const JsonLimits& limits = {});

}  // namespace wmtp
