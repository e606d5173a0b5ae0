// Tokenizers without a tokenizer.json: vocab.json and merges.txt, as GPT-2 and Qwen folders of
// older tools have them. What the two files leave open (how text is split, which tokens are
// special) follows from tokenizer_class in tokenizer_config.json, from added_tokens_decoder there
// or from special_tokens_map.json and added_tokens.json, as transformers takes it.
#pragma once
#include <filesystem>
#include <string>

#include "wmtp/tokenizer/bpe/hf_tokenizer.h"

namespace wmtp::tokenizer {

struct VocabMerges {
  HfParts parts;
  TokenizerSettings settings;
  std::string identity;  // what the fingerprint is taken of: the files and what follows from them
};

bool has_vocab_merges(const std::filesystem::path& folder);

// Error config where tokenizer_class is missing or one whose way of splitting wmtp does not know,
// and for what hf_parts_of refuses; Error data: damaged files, or ids that contradict each other.
VocabMerges read_vocab_merges(const std::filesystem::path& folder);

}  // namespace wmtp::tokenizer
