#include "wmtp/tokenizer/bpe/pre_tokenizer.h"

#include <fmt/format.h>

#include <memory>

#include "wmtp/tokenizer/bpe/byte_level.h"
#include "wmtp/tokenizer/text/unicode.h"

namespace wmtp::tokenizer {
namespace {

void emit(const PreToken& whole, const std::vector<ByteSpan>& spans, std::vector<PreToken>& out) {
  for (const ByteSpan& span : spans)
    out.push_back(
        {whole.text.substr(span.begin, span.end - span.begin), whole.at_start && span.begin == 0});
}

std::string to_byte_level(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char byte : bytes)
    append_utf8(byte_level_alphabet()[static_cast<unsigned char>(byte)], out);
  return out;
}

// `\w+|[^\w\s]+`, everything else dropped.
void split_words(const PreToken& piece, std::vector<PreToken>& out) {
  const CharTable& table = CharTable::instance();
  const auto kind_at = [&](std::size_t at) {
    return table[decode_char(piece.text, at).code] & (kWordChar | kWhiteSpace);
  };
  for (std::size_t at = 0; at < piece.text.size();) {
    const int kind = kind_at(at);
    std::size_t end = at;
    while (end < piece.text.size() && kind_at(end) == kind)
      end += decode_char(piece.text, end).num_bytes;
    if ((kind & kWhiteSpace) == 0) emit(piece, {{at, end}}, out);
    at = end;
  }
}

enum class PrependScheme { always, never, first };

PrependScheme prepend_scheme_of(const JsonFields& component) {
  const std::optional<std::string> name = component.optional_string("prepend_scheme");
  if (!name)
    return component.boolean("add_prefix_space", true) ? PrependScheme::always
                                                       : PrependScheme::never;
  if (*name == "always") return PrependScheme::always;
  if (*name == "never") return PrependScheme::never;
  if (*name == "first") return PrependScheme::first;
  component.unsupported(fmt::format("has the unknown prepend_scheme '{}'", *name));
}

}  // namespace

PreTokenizer::PreTokenizer(const JsonFields& component) {
  add(component, 0);
}

void PreTokenizer::add(const JsonFields& component, int depth) {
  const std::string type = component.type();
  if (type != "Sequence" && type != "ByteLevel") raw_byte_plan_.reset();
  if (type == "Sequence" && depth < kMaxSequenceDepth) {
    for (std::size_t i = 0; i < component.list_size("pretokenizers"); ++i)
      add(component.element("pretokenizers", i), depth + 1);
  } else if (type == "Split") {
    add_split(component);
  } else if (type == "ByteLevel") {
    add_byte_level(component);
  } else if (type == "Metaspace") {
    add_metaspace(component);
  } else if (type == "Digits") {
    add_by_flag(kNumericChar, component.boolean("individual_digits", false)
                                  ? SplitBehavior::isolated
                                  : SplitBehavior::contiguous);
  } else if (type == "Punctuation") {
    add_by_flag(kPunctuationChar, parse_split_behavior(component, SplitBehavior::isolated));
  } else if (type == "WhitespaceSplit") {
    add_by_flag(kWhiteSpace, SplitBehavior::removed);
  } else if (type == "Whitespace") {
    steps_.push_back(split_words);
  } else {
    component.unsupported(fmt::format("is the pre-tokenizer '{}', which is not supported", type));
  }
}

void PreTokenizer::add_split(const JsonFields& component) {
  const auto pattern = std::make_shared<const SplitPattern>(component);
  const SplitBehavior behavior = parse_split_behavior(component, SplitBehavior::isolated);
  const bool invert = component.boolean("invert", false);
  split_source_ = pattern->source();
  if (steps_.empty() && behavior == SplitBehavior::isolated) first_known_split_ = pattern->known();
  steps_.push_back([pattern, behavior, invert](const PreToken& piece, std::vector<PreToken>& out) {
    std::vector<Found> cover = pattern->cover(piece.text);
    if (invert)
      for (Found& found : cover) found.is_match = !found.is_match;
    emit(piece, apply_behavior(cover, behavior), out);
  });
}

void PreTokenizer::add_byte_level(const JsonFields& component) {
  const bool add_prefix_space = component.boolean("add_prefix_space", true);
  const bool use_regex = component.boolean("use_regex", true);
  raw_byte_plan_.reset();
  if (steps_.empty() && use_regex)
    raw_byte_plan_ = RawBytePlan{KnownPattern::gpt2, add_prefix_space};
  else if (steps_.size() == 1 && first_known_split_ && !use_regex && !add_prefix_space)
    raw_byte_plan_ = RawBytePlan{*first_known_split_, false};
  is_byte_level_ = true;
  if (use_regex) split_source_ = regex_of(KnownPattern::gpt2);
  steps_.push_back([=](const PreToken& piece, std::vector<PreToken>& out) {
    PreToken spaced = piece;
    if (add_prefix_space && !piece.text.starts_with(' ')) spaced.text.insert(0, " ");
    const std::size_t first_new = out.size();
    if (use_regex)
      emit(spaced,
           apply_behavior(SplitPattern(KnownPattern::gpt2).cover(spaced.text),
                          SplitBehavior::isolated),
           out);
    else
      out.push_back(spaced);
    for (std::size_t i = first_new; i < out.size(); ++i) out[i].text = to_byte_level(out[i].text);
  });
}

void PreTokenizer::add_metaspace(const JsonFields& component) {
  const std::string replacement = component.string("replacement");
  if (replacement.empty() || decode_char(replacement, 0).num_bytes != replacement.size())
    component.damaged("has a 'replacement' that is not one character");
  const PrependScheme scheme = prepend_scheme_of(component);
  const bool split = component.boolean("split", true);
  steps_.push_back([=](const PreToken& piece, std::vector<PreToken>& out) {
    PreToken spelled{"", piece.at_start};
    for (const char byte : piece.text)
      if (byte == ' ')
        spelled.text += replacement;
      else
        spelled.text += byte;
    const bool wanted =
        scheme == PrependScheme::always || (scheme == PrependScheme::first && piece.at_start);
    if (wanted && !spelled.text.starts_with(replacement)) spelled.text.insert(0, replacement);
    if (!split) return out.push_back(std::move(spelled));
    std::vector<Found> cover;
    std::size_t done = 0;
    for (std::size_t at = spelled.text.find(replacement); at != std::string::npos;
         at = spelled.text.find(replacement, done)) {
      if (done < at) cover.push_back({done, at, false});
      done = at + replacement.size();
      cover.push_back({at, done, true});
    }
    if (done < spelled.text.size()) cover.push_back({done, spelled.text.size(), false});
    emit(spelled, apply_behavior(cover, SplitBehavior::merged_with_next), out);
  });
}

void PreTokenizer::add_by_flag(CharFlag flag, SplitBehavior behavior) {
  steps_.push_back([flag, behavior](const PreToken& piece, std::vector<PreToken>& out) {
    emit(piece, apply_behavior(cover_by_flag(piece.text, flag), behavior), out);
  });
}

void PreTokenizer::apply(std::vector<PreToken>& pieces) const {
  for (const Step& step : steps_) {
    std::vector<PreToken> next;
    for (const PreToken& piece : pieces) step(piece, next);
    pieces = std::move(next);
  }
  std::erase_if(pieces, [](const PreToken& piece) { return piece.text.empty(); });
}

}  // namespace wmtp::tokenizer
