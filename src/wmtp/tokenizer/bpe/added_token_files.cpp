#include "wmtp/tokenizer/bpe/added_token_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <set>

#include "wmtp/core/foreign_json.h"
#include "wmtp/tokenizer/json_fields.h"

namespace wmtp::tokenizer {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 7> kNamed{"bos_token", "eos_token", "unk_token", "sep_token",
                                            "pad_token", "cls_token", "mask_token"};
constexpr const char* kMapFile = "special_tokens_map.json";
constexpr const char* kAddedFile = "added_tokens.json";
constexpr const char* kEndOfText = "<|endoftext|>";

bool is_usual(std::string_view key) {
  return std::ranges::any_of(kNamed, [&](const char* name) { return key == name; });
}

// A token as a tokenizer.json has it: from a string, or an object with a `content`.
Json token_object(const JsonFields& where, const char* key, const Json& value) {
  if (value.is_string()) return {{"content", value}, {"special", true}};
  if (!value.is_object() || !value.contains("content") || !value["content"].is_string())
    where.damaged(fmt::format("has a '{}' that is neither a string nor a token", key));
  Json token = value;
  token.erase("__type");
  return token;
}

class TokenCollector {
 public:
  TokenCollector(const fs::path& folder, const Json& config, const Json& vocab, bool is_qwen)
      : folder_(folder),
        config_(config, (folder / "tokenizer_config.json").string(), "top"),
        vocab_(vocab),
        next_free_(static_cast<std::int64_t>(vocab.size())),
        is_qwen_(is_qwen) {
    named_["eos_token"] = named_["unk_token"] = named_[is_qwen ? "pad_token" : "bos_token"] =
        token_object(config_, "eos_token", kEndOfText);
    read_named(config_, config);
    read_extra(config_);
    has_decoder_ = config_.find("added_tokens_decoder") != nullptr;
  }

  AddedTokenFiles run() {
    if (has_decoder_)
      read_decoder();
    else
      read_older_files();
    for (const auto& [id, token] : decoder_) {
      const bool is_named = std::ranges::any_of(
          named_, [&](const auto& entry) { return entry.second["content"] == token["content"]; });
      add(token, id, is_named);
    }
    for (const char* key : kNamed)
      if (const auto found = named_.find(key); found != named_.end()) add(found->second, {}, true);
    add_own_named();
    for (const Json& token : extra_) add(token, {}, true);
    if (is_qwen_) mark_extra();
    settings("bos_token", result_.settings.bos_token);
    settings("eos_token", result_.settings.eos_token);
    settings("pad_token", result_.settings.pad_token);
    return std::move(result_);
  }

 private:
  // Named tokens of one file; null takes away a default.
  void read_named(const JsonFields& fields, const Json& file) {
    for (const char* key : kNamed) {
      const auto found = file.find(key);
      if (found == file.end()) continue;
      named_.erase(key);
      if (!found->is_null()) named_[key] = token_object(fields, key, *found);
    }
    for (const auto& [key, value] : file.items())
      if (key.ends_with("_token") && value.is_string() && !is_usual(key))
        own_named_.push_back(token_object(fields, key.c_str(), value));
  }

  // extra_special_tokens, once called additional_special_tokens: a list, or names with tokens.
  void read_extra(const JsonFields& fields) {
    for (const char* key : {"extra_special_tokens", "additional_special_tokens"}) {
      const Json* found = fields.find(key);
      if (!found || has_extra_) continue;
      if (!found->is_structured())
        fields.damaged(fmt::format("has a '{}' that is neither a list nor an object", key));
      has_extra_ = has_extra_ || found->is_array();
      for (const Json& token : *found)
        (found->is_array() ? extra_ : own_named_).push_back(token_object(fields, key, token));
    }
  }

  void read_decoder() {
    const JsonFields decoder = config_.child("added_tokens_decoder");
    for (const auto& [key, value] : config_.require("added_tokens_decoder").items()) {
      std::int64_t id = -1;
      const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
      if (parsed.ec != std::errc{} || parsed.ptr != key.data() + key.size())
        decoder.damaged(fmt::format("has the key '{}', which is no id", key));
      if (!value.is_object()) decoder.damaged(fmt::format("has a token {} that is no object", key));
      decoder_[id] = token_object(decoder, key.c_str(), value);
    }
  }

  void read_older_files() {
    std::set<std::string> special;
    for (const Json& token : extra_) special.insert(token["content"].get<std::string>());
    if (fs::exists(folder_ / kMapFile)) {
      const Json map = read_foreign_json(folder_ / kMapFile);
      const JsonFields fields(map, (folder_ / kMapFile).string(), "top");
      read_named(fields, map);
      read_extra(fields);
    }
    for (const auto& [key, token] : named_) special.insert(token["content"].get<std::string>());
    if (!fs::exists(folder_ / kAddedFile)) return;
    const Json added = read_foreign_json(folder_ / kAddedFile);
    const JsonFields fields(added, (folder_ / kAddedFile).string(), "top");
    for (const auto& [content, id] : added.items())
      decoder_[fields.integer(content.c_str())] = {{"content", content},
                                                   {"special", special.contains(content)}};
  }

  // Where two of these were new, their order in the file would decide the ids.
  void add_own_named() {
    std::set<std::string> fresh;
    for (const Json& token : own_named_)
      if (!known_.contains(token["content"].get<std::string>()) &&
          !vocab_.contains(token["content"].get<std::string>()))
        fresh.insert(token["content"].get<std::string>());
    if (fresh.size() > 1)
      config_.unsupported(fmt::format("names {} new tokens ({} and others) that have no id",
                                      fresh.size(), *fresh.begin()));
    for (const Json& token : own_named_) add(token, {}, true);
  }

  void add(Json token, std::optional<std::int64_t> id, bool is_special) {
    const std::string content = token["content"].get<std::string>();
    if (content.empty() || !known_.insert(content).second) return;
    if (is_special) token["special"] = true;
    const auto in_vocab = vocab_.find(content);
    const bool has_id = in_vocab != vocab_.end() && in_vocab->is_number_integer();
    if (!id) id = has_id ? in_vocab->get<std::int64_t>() : next_free_;
    token["id"] = *id;
    if (*id >= 0 && *id <= std::numeric_limits<TokenId>::max())  // others the reader refuses
      next_free_ = std::max(next_free_, *id + 1);
    result_.tokens.push_back(std::move(token));
  }

  // The class adds its special tokens once more at the end, as tokens of their own kind.
  void mark_extra() {
    for (Json& token : result_.tokens)
      if (std::ranges::any_of(
              extra_, [&](const Json& extra) { return extra["content"] == token["content"]; })) {
        if (!token.contains("special") || token["special"] != true) token["normalized"] = false;
        token["special"] = true;
      }
  }

  void settings(const char* key, std::optional<std::string>& out) const {
    if (const auto found = named_.find(key); found != named_.end())
      out = found->second["content"].get<std::string>();
  }

  const fs::path& folder_;
  JsonFields config_;
  const Json& vocab_;
  std::int64_t next_free_;
  bool is_qwen_, has_decoder_ = false, has_extra_ = false;
  std::map<std::string, Json, std::less<>> named_;
  std::map<std::int64_t, Json> decoder_;
  std::vector<Json> own_named_, extra_;
  std::set<std::string> known_;
  AddedTokenFiles result_;
};

}  // namespace

AddedTokenFiles read_added_token_files(const fs::path& folder, const Json& config,
                                       const Json& vocab, bool is_qwen) {
  return TokenCollector(folder, config, vocab, is_qwen).run();
}

}  // namespace wmtp::tokenizer
