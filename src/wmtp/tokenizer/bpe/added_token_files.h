// Added tokens as the files beside a vocabulary say them: tokenizer_config.json, and for older
// tools special_tokens_map.json and added_tokens.json.
#pragma once
#include <filesystem>

#include "wmtp/core/json.h"
#include "wmtp/tokenizer/bpe/hf_tokenizer.h"

namespace wmtp::tokenizer {

struct AddedTokenFiles {
  Json tokens = Json::array();  // as the added_tokens of a tokenizer.json, with their ids
  TokenizerSettings settings;
};

// In the order in which transformers adds them, which gives ids to those that have none.
// `config` is the whole of tokenizer_config.json, `vocab` of vocab.json. `is_qwen`: by its
// defaults.
AddedTokenFiles read_added_token_files(const std::filesystem::path& folder, const Json& config,
                                       const Json& vocab, bool is_qwen);

}  // namespace wmtp::tokenizer
