// Tokenizers as users name them: beside their folders and files, by the models they belong to.
#pragma once
#include <memory>
#include <string>

#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::cli {

inline constexpr const char* kTokenizerHelp =
    "Folder, tokenizer.json, tokenizer.model, or org/name in the local cache";

// What load_tokenizer takes, if there is such a file or folder; else `name` is `org/name` in the
// Hugging Face cache of this process's environment, or the s3:// URI of a model's folder. BLOCKS.
// Error config where it is none of them.
std::shared_ptr<const tokenizer::Tokenizer> open_tokenizer(const std::string& name);

}  // namespace wmtp::cli
