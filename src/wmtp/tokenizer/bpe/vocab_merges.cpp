#include "wmtp/tokenizer/bpe/vocab_merges.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/core/file.h"
#include "wmtp/core/foreign_json.h"
#include "wmtp/tokenizer/bpe/added_token_files.h"
#include "wmtp/tokenizer/json_fields.h"
#include "wmtp/tokenizer/text/split_scanner.h"

namespace wmtp::tokenizer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVocabFile = "vocab.json";
constexpr const char* kMergesFile = "merges.txt";
constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kSaveAgain =
    "let transformers write a tokenizer.json: AutoTokenizer.from_pretrained(FOLDER)"
    ".save_pretrained(FOLDER)";

enum class Family { gpt2, qwen2 };

Family family_of(const fs::path& folder, const Json& config) {
  const std::string place = (folder / kConfigFile).string();
  const std::optional<std::string> name =
      JsonFields(config, place, "top").optional_string("tokenizer_class");
  if (!name)
    throw Error(ErrorKind::config, "tokenizer",
                fmt::format("{} has {} and {}, but no tokenizer_class in {} says how text is split",
                            folder.string(), kVocabFile, kMergesFile, kConfigFile),
                kSaveAgain);
  for (const std::string_view end : {"", "Fast"}) {
    if (*name == fmt::format("GPT2Tokenizer{}", end)) return Family::gpt2;
    if (*name == fmt::format("Qwen2Tokenizer{}", end)) return Family::qwen2;
  }
  throw Error(ErrorKind::config, "tokenizer",
              fmt::format("{}: tokenizer_class {} is not supported without a tokenizer.json; "
                          "known are GPT2Tokenizer and Qwen2Tokenizer",
                          place, *name),
              kSaveAgain);
}

// One merge a line; the first line may name a version.
Json read_merge_lines(std::string_view text, const std::string& file) {
  Json merges = Json::array();
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    std::string_view merge = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (merge.ends_with('\r')) merge.remove_suffix(1);
    if (merge.starts_with("#version")) continue;
    if (std::ranges::count(merge, ' ') != 1)
      throw Error(ErrorKind::data, "tokenizer",
                  fmt::format("{}: line {} is not two tokens with a space between", file, line),
                  "is the file complete?");
    merges.push_back(std::string(merge));
  }
  return merges;
}

void set_splitting(Family family, bool add_prefix_space, Json& document) {
  const Json byte_level{{"type", "ByteLevel"}, {"add_prefix_space", add_prefix_space}};
  document["decoder"] = {{"type", "ByteLevel"}};
  document["pre_tokenizer"] = byte_level;
  if (family == Family::gpt2) return;
  Json bytes_only = byte_level;
  bytes_only["use_regex"] = false;
  const Json split{{"type", "Split"},
                   {"pattern", {{"Regex", std::string(regex_of(KnownPattern::qwen))}}},
                   {"behavior", "Isolated"}};
  document["normalizer"] = {{"type", "NFC"}};
  document["pre_tokenizer"] = {{"type", "Sequence"},
                               {"pretokenizers", Json::array({split, bytes_only})}};
}

// add_bos_token and add_eos_token put the tokens around the text.
SpecialFrame frame_of(const JsonFields& config, const HfParts& parts,
                      const TokenizerSettings& settings) {
  const auto ids = [&](const char* key, const std::optional<std::string>& content) {
    std::vector<TokenId> found;
    if (!content || !config.boolean(key, false)) return found;
    for (const AddedToken& token : parts.added_tokens)
      if (token.content == *content) found.push_back(token.id);
    return found;
  };
  return {ids("add_bos_token", settings.bos_token), ids("add_eos_token", settings.eos_token)};
}

}  // namespace

bool has_vocab_merges(const fs::path& folder) {
  return fs::exists(folder / kVocabFile) && fs::exists(folder / kMergesFile);
}

VocabMerges read_vocab_merges(const fs::path& folder) {
  const fs::path vocab_file = folder / kVocabFile, merges_file = folder / kMergesFile;
  const Json config =
      fs::exists(folder / kConfigFile) ? read_foreign_json(folder / kConfigFile) : Json::object();
  const Family family = family_of(folder, config);
  const std::string vocab = read_file(vocab_file, kMaxTokenizerJsonBytes, ErrorKind::data);
  const std::string merges = read_file(merges_file, kMaxTokenizerJsonBytes, ErrorKind::data);
  const Json entries = parse_foreign_json(vocab, vocab_file.string(),
                                          {.max_bytes = kMaxTokenizerJsonBytes, .max_depth = 4});
  const AddedTokenFiles added =
      read_added_token_files(folder, config, entries, family == Family::qwen2);

  Json document{{"added_tokens", added.tokens}};
  const JsonFields fields(config, (folder / kConfigFile).string(), "top");
  set_splitting(family, fields.boolean("add_prefix_space", false), document);
  VocabMerges result;
  result.identity = fmt::format("{}\n{}\n{}", vocab, merges, document.dump());
  document["model"] = {{"type", "BPE"},
                       {"vocab", entries},
                       {"merges", read_merge_lines(merges, merges_file.string())}};
  result.parts = hf_parts_of(document, vocab_file.string());
  result.settings = added.settings;
  result.parts.frame = frame_of(fields, result.parts, result.settings);
  return result;
}

}  // namespace wmtp::tokenizer
