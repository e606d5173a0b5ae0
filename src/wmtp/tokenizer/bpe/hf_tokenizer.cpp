#include "wmtp/tokenizer/bpe/hf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/checksum.h"
#include "wmtp/core/error.h"
#include "wmtp/tokenizer/text/unicode.h"

namespace wmtp::tokenizer {
namespace {

std::string make_fingerprint(std::string_view file_bytes, std::optional<TokenId> bos,
                             std::optional<TokenId> eos, const SpecialFrame& frame) {
  Sha256 digest;
  digest.update(file_bytes);
  digest.update(fmt::format("\nbos={} eos={} before={} after={}", bos.value_or(-1),
                            eos.value_or(-1), fmt::join(frame.before, ","),
                            fmt::join(frame.after, ",")));
  return to_hex(digest.finish());
}

}  // namespace

HfTokenizer::HfTokenizer(HfParts parts, const TokenizerSettings& settings,
                         std::string_view file_bytes)
    : parts_(std::move(parts)) {
  for (const auto& [token, id] : parts_.model->vocab()) {
    vocab_by_id_.emplace(id, token);
    vocab_size_ = std::max<std::int64_t>(vocab_size_, std::int64_t{id} + 1);
  }
  for (const AddedToken& token : parts_.added_tokens) {
    added_by_content_.emplace(token.content, &token);
    added_by_id_.emplace(token.id, &token);
    vocab_size_ = std::max<std::int64_t>(vocab_size_, std::int64_t{token.id} + 1);
  }
  build_matchers();
  if (parts_.pre_tokenizer.raw_byte_plan() && parts_.model->use_raw_bytes())
    raw_plan_ = parts_.pre_tokenizer.raw_byte_plan();
  kind_ = parts_.pre_tokenizer.is_byte_level() ? "bpe/byte-level"
          : parts_.model->byte_fallback()      ? "bpe/byte-fallback"
                                               : "bpe";
  choose_special_ids(settings);
  fingerprint_ = make_fingerprint(file_bytes, bos_id_, eos_id_, parts_.frame);
}

// The reference shows a normalised token as normalisation left it (old Llama 2 files: "<unk>" with
// a space in front), and takes for special what reads like a special token then.
void HfTokenizer::build_matchers() {
  std::vector<AddedToken> raw, normalized;
  std::vector<std::string> raw_contents, normalized_contents;
  // Special tokens first: where two normalised contents are equal, the first one counts.
  for (const bool special : {true, false})
    for (const AddedToken& token : parts_.added_tokens) {
      if (token.special != special) continue;
      (token.normalized ? normalized : raw).push_back(token);
      std::vector<std::string>& contents = token.normalized ? normalized_contents : raw_contents;
      contents.push_back(token.normalized ? parts_.normalizer.apply(token.content).text
                                          : token.content);
      const auto reads_like = added_by_content_.find(contents.back());
      shown_[token.id] = {contents.back(),
                          reads_like != added_by_content_.end() && reads_like->second->special};
    }
  raw_matcher_ = AddedTokenMatcher(std::move(raw), std::move(raw_contents));
  normalized_matcher_ = AddedTokenMatcher(std::move(normalized), std::move(normalized_contents));
}

// tokenizer_config.json decides; else the post-processor's first token and the usual names.
void HfTokenizer::choose_special_ids(const TokenizerSettings& settings) {
  const auto first_known =
      [&](std::initializer_list<std::string_view> names) -> std::optional<TokenId> {
    for (const std::string_view name : names)
      if (const auto found = added_by_content_.find(name); found != added_by_content_.end())
        return found->second->id;
    return std::nullopt;
  };
  if (settings.bos_token) bos_id_ = id_of(*settings.bos_token);
  if (settings.eos_token) eos_id_ = id_of(*settings.eos_token);
  if (settings.pad_token) pad_id_ = id_of(*settings.pad_token);
  if (!settings.bos_token) {
    if (!parts_.frame.before.empty())
      bos_id_ = parts_.frame.before.front();
    else
      bos_id_ = first_known({"<s>", "<|begin_of_text|>", "<bos>"});
  }
  if (!settings.eos_token) {
    if (!parts_.frame.after.empty())
      eos_id_ = parts_.frame.after.back();
    else
      eos_id_ = first_known({"</s>", "<|end_of_text|>", "<|endoftext|>", "<eos>"});
  }
}

bool HfTokenizer::adds_bos() const {
  return bos_id_ && !parts_.frame.before.empty() && parts_.frame.before.front() == *bos_id_;
}

std::vector<TokenMatch> HfTokenizer::fixed_matches(std::string_view text,
                                                   std::span<const ByteSpan> spans) const {
  std::vector<TokenMatch> matches;
  std::size_t done = 0;
  for (const ByteSpan& span : spans) {
    WMTP_CHECK(span.begin >= done && span.begin <= span.end && span.end <= text.size(),
               "special spans ascend, do not overlap and lie inside the text");
    done = span.end;
    const auto found = added_by_content_.find(text.substr(span.begin, span.end - span.begin));
    if (found != added_by_content_.end() && found->second->special)
      matches.push_back({span.begin, span.end, found->second});
  }
  return matches;
}

void HfTokenizer::encode(std::string_view text, const EncodeOptions& options,
                         std::vector<TokenId>& out) const {
  require_valid_utf8(text);
  const auto append = [&](const std::vector<TokenId>& ids) {
    out.insert(out.end(), ids.begin(), ids.end());
  };
  if (options.add_special) append(parts_.frame.before);
  const std::vector<TokenMatch> fixed = fixed_matches(text, options.special_spans);
  for (const Section& section : raw_matcher_.split(text, options.allow_special, fixed)) {
    if (section.id >= 0)
      out.push_back(section.id);
    else
      encode_section(text.substr(section.begin, section.end - section.begin), section.begin == 0,
                     options.allow_special, out);
  }
  if (options.add_special) append(parts_.frame.after);
}

void HfTokenizer::encode_section(std::string_view raw, bool at_start, bool allow_special,
                                 std::vector<TokenId>& out) const {
  NormalizedText normalized;
  std::string_view text = raw;
  const bool unchanged = parts_.normalizer.is_nothing() ||
                         (parts_.normalizer.is_nfc_only() && is_normalized_nfc_quick(raw));
  if (!unchanged) {
    normalized = parts_.normalizer.apply(raw);
    text = normalized.text;
  }
  at_start = at_start && normalized.keeps_start;
  if (normalized_matcher_.empty()) return encode_normalized(text, at_start, out);
  for (const Section& section : normalized_matcher_.split(text, allow_special)) {
    if (section.id >= 0)
      out.push_back(section.id);
    else
      encode_normalized(text.substr(section.begin, section.end - section.begin),
                        at_start && section.begin == 0, out);
  }
}

void HfTokenizer::encode_normalized(std::string_view text, bool at_start,
                                    std::vector<TokenId>& out) const {
  if (text.empty()) return;
  if (raw_plan_) {
    if (raw_plan_->add_prefix_space && !text.starts_with(' '))
      return parts_.model->encode_split(" " + std::string(text), raw_plan_->pattern, out);
    return parts_.model->encode_split(text, raw_plan_->pattern, out);
  }
  std::vector<PreToken> pieces{{std::string(text), at_start}};
  parts_.pre_tokenizer.apply(pieces);
  for (const PreToken& piece : pieces) parts_.model->encode(piece.text, out);
}

std::string HfTokenizer::piece(TokenId id) const {
  if (id < 0 || id >= vocab_size_) throw_unknown_id(id, vocab_size_);
  if (const auto found = added_by_id_.find(id); found != added_by_id_.end())
    return found->second->content;
  const auto found = vocab_by_id_.find(id);
  return found == vocab_by_id_.end() ? std::string() : std::string(found->second);
}

std::optional<TokenId> HfTokenizer::id_of(std::string_view piece) const {
  if (const auto found = added_by_content_.find(piece); found != added_by_content_.end())
    return found->second->id;
  const auto found = parts_.model->vocab().find(piece);
  if (found == parts_.model->vocab().end()) return std::nullopt;
  return found->second;
}

std::string HfTokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const TokenId id : ids) {
    const auto added = shown_.find(id);
    if (added != shown_.end()) {
      if (!skip_special || !added->second.is_special) tokens.push_back(added->second.text);
    } else if (const auto found = vocab_by_id_.find(id); found != vocab_by_id_.end()) {
      tokens.emplace_back(found->second);
    } else if (id < 0 || id >= vocab_size_) {
      throw_unknown_id(id, vocab_size_);
    }  // a hole in the numbering stands for nothing, as in the reference
  }
  return parts_.decoder.apply(std::move(tokens));
}

TokenizerDescription HfTokenizer::describe() const {
  TokenizerDescription description;
  for (const AddedToken& token : parts_.added_tokens)
    description.added_tokens.push_back({token.id, token.content, token.special});
  std::sort(description.added_tokens.begin(), description.added_tokens.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  description.split_pattern = parts_.pre_tokenizer.split_source();
  if (raw_plan_)
    description.splitter = fmt::format("scanner {}", name_of(raw_plan_->pattern));
  else if (!description.split_pattern.empty())
    description.splitter = known_pattern(description.split_pattern) ? "scanner" : "pcre2";
  return description;
}

}  // namespace wmtp::tokenizer
