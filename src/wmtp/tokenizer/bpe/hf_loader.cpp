// Reads and checks a tokenizer.json.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "wmtp/core/foreign_json.h"
#include "wmtp/core/planted_fault.h"
#include "wmtp/tokenizer/bpe/hf_tokenizer.h"

namespace wmtp::tokenizer {
namespace {

constexpr int kMaxDepth = 32;
constexpr std::size_t kMaxEntries = 4'194'304;
constexpr std::size_t kMaxTokenBytes = 4'096;
constexpr std::size_t kMaxAddedTokens = 65'536;

TokenId checked_id(const JsonFields& where, const Json& value, std::string_view token) {
  if (!value.is_number_integer() || value < 0 || value > std::numeric_limits<TokenId>::max())
    where.damaged(fmt::format("gives token '{}' the id {}, not an integer from 0 to 2^31 - 1",
                              token, value.dump().substr(0, 40)));
  return value.get<TokenId>();
}

void check_token(const JsonFields& where, const std::string& token) {
  if (token.size() > kMaxTokenBytes + planted_off_by_one)
    where.damaged(fmt::format("has a token of {} bytes, limit {}", token.size(), kMaxTokenBytes));
}

Vocabulary read_vocab(const JsonFields& model) {
  const Json& vocab = model.require("vocab");
  if (!vocab.is_object()) model.damaged("has a 'vocab' that is not an object");
  if (vocab.size() > kMaxEntries)
    model.damaged(fmt::format("has {} vocabulary entries, limit {}", vocab.size(), kMaxEntries));
  Vocabulary result;
  result.reserve(vocab.size());
  std::vector<TokenId> ids;
  ids.reserve(vocab.size());
  for (const auto& [token, id] : vocab.items()) {
    check_token(model, token);
    ids.push_back(checked_id(model, id, token));
    result.emplace(token, ids.back());
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end()) model.damaged(fmt::format("gives the id {} to two tokens", *twice));
  return result;
}

std::pair<std::string, std::string> read_merge(const JsonFields& model, const Json& merge,
                                               std::size_t rank) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  if (!merge.is_string())
    model.damaged(
        fmt::format("has a merge {} that is neither a string nor a pair of strings", rank));
  const std::string text = merge.get<std::string>();
  const std::size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
    model.damaged(
        fmt::format("has a merge {} ('{}') without exactly one space", rank, text.substr(0, 80)));
  return {text.substr(0, space), text.substr(space + 1)};
}

std::vector<std::pair<std::string, std::string>> read_merges(const JsonFields& model) {
  const std::size_t count = model.list_size("merges");
  if (count > kMaxEntries)
    model.damaged(fmt::format("has {} merges, limit {}", count, kMaxEntries));
  const Json& merges = model.require("merges");
  std::vector<std::pair<std::string, std::string>> result;
  result.reserve(count);
  for (std::size_t rank = 0; rank < count; ++rank)
    result.push_back(read_merge(model, merges[rank], rank));
  return result;
}

std::unique_ptr<BpeModel> read_model(const JsonFields& model) {
  const std::optional<std::string> type = model.optional_string("type");
  if (type && *type != "BPE")
    model.unsupported(fmt::format("is of type '{}'; only BPE is supported", *type));
  if (!type && !model.find("merges"))
    model.unsupported("has no type and no merges; only BPE is supported");
  if (const Json* dropout = model.find("dropout")) {
    if (!dropout->is_number()) model.damaged("has a 'dropout' that is not a number");
    if (*dropout != 0)
      model.unsupported(fmt::format("has dropout {}; only 0 is supported", dropout->dump()));
  }
  BpeConfig config;
  config.vocab = read_vocab(model);
  config.merges = read_merges(model);
  config.unk_token = model.optional_string("unk_token");
  config.continuing_subword_prefix =
      model.optional_string("continuing_subword_prefix").value_or("");
  config.end_of_word_suffix = model.optional_string("end_of_word_suffix").value_or("");
  config.fuse_unk = model.boolean("fuse_unk", false);
  config.byte_fallback = model.boolean("byte_fallback", false);
  config.ignore_merges = model.boolean("ignore_merges", false);
  return std::make_unique<BpeModel>(std::move(config), model.file());
}

AddedToken read_added_token(const JsonFields& entry) {
  AddedToken token;
  token.content = entry.string("content");
  if (token.content.empty()) entry.damaged("has an empty 'content'");
  check_token(entry, token.content);
  token.id = checked_id(entry, entry.require("id"), token.content);
  token.single_word = entry.boolean("single_word", false);
  token.lstrip = entry.boolean("lstrip", false);
  token.rstrip = entry.boolean("rstrip", false);
  token.special = entry.boolean("special", false);
  token.normalized = entry.boolean("normalized", !token.special);
  return token;
}

// An added token has the vocabulary's id where its content is there, else the next free one.
std::vector<AddedToken> read_added_tokens(const JsonFields& top, const Vocabulary& vocab) {
  if (!top.find("added_tokens")) return {};
  const std::size_t count = top.list_size("added_tokens");
  if (count > kMaxAddedTokens)
    top.damaged(fmt::format("has {} added tokens, limit {}", count, kMaxAddedTokens));
  std::vector<AddedToken> tokens;
  std::set<std::string, std::less<>> seen;
  std::int64_t next_free = static_cast<std::int64_t>(vocab.size());
  for (std::size_t i = 0; i < count; ++i) {
    const JsonFields entry = top.element("added_tokens", i);
    AddedToken token = read_added_token(entry);
    if (!seen.insert(token.content).second)
      entry.damaged(fmt::format("repeats the added token '{}'", token.content));
    const auto in_vocab = vocab.find(token.content);
    const std::int64_t expected = in_vocab == vocab.end() ? next_free : in_vocab->second;
    if (token.id != expected)
      entry.damaged(fmt::format("gives '{}' the id {}, but {}", token.content, token.id,
                                in_vocab == vocab.end()
                                    ? fmt::format("the next free id is {}", expected)
                                    : fmt::format("the vocabulary says {}", expected)));
    next_free = std::max(next_free, std::int64_t{token.id} + 1);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::vector<TokenId> template_ids(const JsonFields& processor, const std::string& name) {
  const JsonFields entry = processor.child("special_tokens").child(name.c_str());
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < entry.list_size("ids"); ++i)
    ids.push_back(checked_id(entry, entry.require("ids")[i], name));
  return ids;
}

SpecialFrame read_template(const JsonFields& processor) {
  SpecialFrame frame;
  bool seen_text = false;
  for (std::size_t i = 0; i < processor.list_size("single"); ++i) {
    const JsonFields piece = processor.element("single", i);
    if (piece.find("Sequence")) {
      const JsonFields sequence = piece.child("Sequence");
      if (seen_text || sequence.string("id") != "A")
        piece.unsupported("is not the template's one $A");
      seen_text = true;
      continue;
    }
    const std::vector<TokenId> ids =
        template_ids(processor, piece.child("SpecialToken").string("id"));
    std::vector<TokenId>& side = seen_text ? frame.after : frame.before;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (!seen_text) processor.unsupported("has a template without $A");
  return frame;
}

// In a Sequence each further template goes around what the earlier ones made.
SpecialFrame read_post_processor(const JsonFields& processor, int depth) {
  const std::string type = processor.type();
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return read_template(processor);
  if (type != "Sequence" || depth >= kMaxSequenceDepth)
    processor.unsupported(fmt::format("is the post-processor '{}', which is not supported", type));
  SpecialFrame frame;
  for (std::size_t i = 0; i < processor.list_size("processors"); ++i) {
    SpecialFrame outer = read_post_processor(processor.element("processors", i), depth + 1);
    frame.before.insert(frame.before.begin(), outer.before.begin(), outer.before.end());
    frame.after.insert(frame.after.end(), outer.after.begin(), outer.after.end());
  }
  return frame;
}

}  // namespace

HfParts read_hf_parts(std::string_view json_text, const std::string& file) {
  return hf_parts_of(
      parse_foreign_json(json_text, file,
                         {.max_bytes = kMaxTokenizerJsonBytes, .max_depth = kMaxDepth}),
      file);
}

HfParts hf_parts_of(const Json& json, const std::string& file) {
  const JsonFields top(json, file, "top");
  if (const auto version = top.optional_string("version"); version && *version != "1.0")
    top.unsupported(fmt::format("has version '{}'; only 1.0 is supported", *version));
  HfParts parts;
  if (top.find("normalizer")) parts.normalizer = Normalizer(top.child("normalizer"));
  if (top.find("pre_tokenizer")) parts.pre_tokenizer = PreTokenizer(top.child("pre_tokenizer"));
  if (top.find("decoder")) parts.decoder = Decoder(top.child("decoder"));
  if (top.find("post_processor")) parts.frame = read_post_processor(top.child("post_processor"), 0);
  parts.model = read_model(top.child("model"));
  parts.added_tokens = read_added_tokens(top, parts.model->vocab());
  return parts;
}

}  // namespace wmtp::tokenizer
