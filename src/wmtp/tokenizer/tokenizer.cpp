#include "wmtp/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/core/file.h"
#include "wmtp/core/foreign_json.h"
#include "wmtp/tokenizer/bpe/hf_tokenizer.h"
#include "wmtp/tokenizer/bpe/vocab_merges.h"
#include "wmtp/tokenizer/json_fields.h"
#include "wmtp/tokenizer/sentencepiece/sentencepiece.h"
#include "wmtp/tokenizer/text/unicode.h"

namespace wmtp::tokenizer {
namespace {

// bos_token and eos_token are strings, or objects with a `content`.
std::optional<std::string> token_setting(const JsonFields& config, const char* key) {
  const Json* value = config.find(key);
  if (value && value->is_object()) return config.child(key).string("content");
  return config.optional_string(key);
}

TokenizerSettings read_settings(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "tokenizer_config.json";
  TokenizerSettings settings;
  if (!std::filesystem::exists(path)) return settings;
  const Json json = read_foreign_json(path);
  const JsonFields config(json, path.string(), "top");
  settings.bos_token = token_setting(config, "bos_token");
  settings.eos_token = token_setting(config, "eos_token");
  settings.pad_token = token_setting(config, "pad_token");
  if (config.find("add_bos_token")) settings.add_bos_token = config.boolean("add_bos_token", false);
  if (config.find("add_eos_token")) settings.add_eos_token = config.boolean("add_eos_token", false);
  return settings;
}

constexpr const char* kWhatToGive =
    "give a folder with tokenizer.json, tokenizer.model, or vocab.json and merges.txt";

// tokenizer.json or tokenizer.model, or the vocab.json of a folder that has neither.
std::filesystem::path tokenizer_file(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) {
    if (std::filesystem::exists(path)) return path;
    throw Error(ErrorKind::config, "tokenizer", fmt::format("{} does not exist", path.string()),
                kWhatToGive);
  }
  for (const char* name : {"tokenizer.json", "tokenizer.model"})
    if (std::filesystem::exists(path / name)) return path / name;
  if (has_vocab_merges(path)) return path / "vocab.json";
  throw Error(ErrorKind::config, "tokenizer",
              fmt::format("{} holds neither tokenizer.json nor tokenizer.model, nor vocab.json "
                          "with merges.txt",
                          path.string()),
              "give the folder of a model in Hugging Face form; in a configuration "
              "models.policy.tokenizer_path "
              "names one apart from the model");
}

}  // namespace

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<TokenId> ids;
  encode(text, options, ids);
  return ids;
}

std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  const std::filesystem::path file = tokenizer_file(path);
  if (file.filename() == "vocab.json" && has_vocab_merges(file.parent_path())) {
    VocabMerges read = read_vocab_merges(file.parent_path());
    return std::make_shared<HfTokenizer>(std::move(read.parts), read.settings, read.identity);
  }
  const TokenizerSettings settings = read_settings(file.parent_path());
  if (file.extension() == ".json") {
    const std::string bytes = read_file(file, kMaxTokenizerJsonBytes, ErrorKind::data);
    return std::make_shared<HfTokenizer>(read_hf_parts(bytes, file.string()), settings, bytes);
  }
  if (file.extension() == ".model") {
    const std::string bytes = read_file(file, kMaxSentencePieceBytes, ErrorKind::data);
    return std::make_shared<SentencePieceTokenizer>(read_sentencepiece(bytes, file.string()),
                                                    settings, bytes);
  }
  throw Error(ErrorKind::config, "tokenizer",
              fmt::format("{} is neither a .json nor a .model file", file.string()), kWhatToGive);
}

void require_valid_utf8(std::string_view text) {
  const std::size_t valid = valid_utf8_prefix(text);
  if (valid != text.size())
    throw Error(ErrorKind::data, "tokenizer", fmt::format("invalid UTF-8 at byte {}", valid),
                "text must be UTF-8; convert it first");
}

void throw_unknown_id(TokenId id, std::int64_t vocab_size) {
  throw Error(ErrorKind::data, "tokenizer",
              fmt::format("token id {} is outside the vocabulary of {}", id, vocab_size),
              "were these ids made with another tokenizer?");
}

}  // namespace wmtp::tokenizer
