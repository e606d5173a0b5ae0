#include "wmtp/tokenizer/bpe/decoder.h"

#include <fmt/format.h>

#include <cctype>
#include <memory>

#include "wmtp/tokenizer/bpe/byte_level.h"
#include "wmtp/tokenizer/text/split_pattern.h"
#include "wmtp/tokenizer/text/unicode.h"

namespace wmtp::tokenizer {
namespace {

using Tokens = std::vector<std::string>;

std::string joined(const Tokens& tokens) {
  std::string out;
  for (const std::string& token : tokens) out += token;
  return out;
}

void decode_byte_level(Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) {
    const std::optional<std::string> mapped = from_byte_level(token);
    bytes += mapped ? *mapped : token;
  }
  tokens = {to_valid_utf8(bytes)};
}

// A run of byte tokens is text if the whole of it is valid UTF-8, else one U+FFFD a byte.
void decode_byte_fallback(Tokens& tokens) {
  Tokens out;
  std::string run;
  const auto flush = [&] {
    if (run.empty()) return;
    if (valid_utf8_prefix(run) == run.size())
      out.push_back(run);
    else
      out.insert(out.end(), run.size(), std::string(kReplacementChar));
    run.clear();
  };
  for (std::string& token : tokens) {
    if (const std::optional<unsigned char> byte = fallback_byte(token)) {
      run.push_back(static_cast<char>(*byte));
      continue;
    }
    flush();
    out.push_back(std::move(token));
  }
  flush();
  tokens = std::move(out);
}

void replace_in(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

void strip_token(std::string& token, std::string_view content, std::int64_t start,
                 std::int64_t stop) {
  std::string_view rest = token;
  for (std::int64_t i = 0; i < start && rest.starts_with(content); ++i)
    rest.remove_prefix(content.size());
  for (std::int64_t i = 0; i < stop && rest.ends_with(content); ++i)
    rest.remove_suffix(content.size());
  token = std::string(rest);
}

}  // namespace

std::optional<unsigned char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    if (!std::isxdigit(static_cast<unsigned char>(c))) return std::nullopt;
    value = value * 16 +
            (std::isdigit(static_cast<unsigned char>(c)) ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return static_cast<unsigned char>(value);
}

Decoder::Decoder(const JsonFields& component) : is_given_(true) {
  add(component, 0);
}

void Decoder::add(const JsonFields& component, int depth) {
  const std::string type = component.type();
  if (type == "Sequence" && depth < kMaxSequenceDepth) {
    for (std::size_t i = 0; i < component.list_size("decoders"); ++i)
      add(component.element("decoders", i), depth + 1);
  } else if (type == "ByteLevel") {
    steps_.push_back(decode_byte_level);
  } else if (type == "ByteFallback") {
    steps_.push_back(decode_byte_fallback);
  } else if (type == "Fuse") {
    steps_.push_back([](Tokens& tokens) { tokens = {joined(tokens)}; });
  } else if (type == "Metaspace") {
    const bool prepends =
        component.optional_string("prepend_scheme")
            .value_or(component.boolean("add_prefix_space", true) ? "always" : "never") != "never";
    steps_.push_back([prepends, replacement = component.string("replacement")](Tokens& tokens) {
      for (std::size_t i = 0; i < tokens.size(); ++i)
        replace_in(tokens[i], replacement, i == 0 && prepends ? "" : " ");
    });
  } else if (type == "Replace") {
    const auto pattern = std::make_shared<const SplitPattern>(component);
    steps_.push_back([pattern, content = component.string("content")](Tokens& tokens) {
      for (std::string& token : tokens) token = pattern->replace_all(token, content);
    });
  } else if (type == "Strip") {
    const std::string content = component.string("content");
    if (content.empty()) component.damaged("has an empty 'content'");
    steps_.push_back([content, start = component.integer("start"),
                      stop = component.integer("stop")](Tokens& tokens) {
      for (std::string& token : tokens) strip_token(token, content, start, stop);
    });
  } else if (type == "BPEDecoder") {
    steps_.push_back(
        [suffix = component.optional_string("suffix").value_or("</w>")](Tokens& tokens) {
          for (std::size_t i = 0; i < tokens.size() && !suffix.empty(); ++i)
            replace_in(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
        });
  } else {
    component.unsupported(fmt::format("is the decoder '{}', which is not supported", type));
  }
}

std::string Decoder::apply(Tokens tokens) const {
  if (!is_given_) return fmt::format("{}", fmt::join(tokens, " "));
  for (const auto& step : steps_) step(tokens);
  return joined(tokens);
}

}  // namespace wmtp::tokenizer
