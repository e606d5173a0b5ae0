#include "wmtp/tokenizer/text/normalizer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "wmtp/tokenizer/text/split_pattern.h"
#include "wmtp/tokenizer/text/unicode.h"

namespace wmtp::tokenizer {
namespace {

// First character at or after `from` that has `flag`, or the text's end.
std::size_t find_active(std::string_view text, std::size_t from, CharFlag flag) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080ULL;
  const CharTable& table = CharTable::instance();
  std::size_t at = from;
  while (at < text.size()) {
    std::uint64_t word = kHighBits;
    if (at + 8 <= text.size()) std::memcpy(&word, text.data() + at, 8);
    if ((word & kHighBits) == 0) {  // ASCII never changes
      at += 8;
      continue;
    }
    const DecodedChar c = decode_char(text, at);
    if (table[c.code] & flag) return at;
    at += c.num_bytes;
  }
  return at;
}

std::size_t active_run_end(std::string_view text, std::size_t at, CharFlag flag) {
  const CharTable& table = CharTable::instance();
  while (at < text.size()) {
    const DecodedChar c = decode_char(text, at);
    if ((table[c.code] & flag) == 0) break;
    at += c.num_bytes;
  }
  return at;
}

utf8proc_option_t options_of(UnicodeForm form) {
  int options = UTF8PROC_STABLE;
  options |=
      form == UnicodeForm::nfc || form == UnicodeForm::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == UnicodeForm::nfkc || form == UnicodeForm::nfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

void append_mapped(std::string_view run, UnicodeForm form, std::string& out) {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(run.data()),
                   static_cast<utf8proc_ssize_t>(run.size()), &mapped, options_of(form));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(mapped, std::free);
  if (length < 0)
    throw Error(
        ErrorKind::internal, "tokenizer",
        fmt::format("utf8proc cannot normalise {} bytes: {}", run.size(), utf8proc_errmsg(length)));
  out.append(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(length));
}

// True where utf8proc would change or reorder a character that the reference does not know.
bool is_newer_than_reference(char32_t code) {
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(code));
  return property->combining_class != 0 || property->decomp_seqindex != UINT16_MAX;
}

void lowercase(NormalizedText& state) {
  std::string out;
  out.reserve(state.text.size());
  for (std::size_t at = 0; at < state.text.size();) {
    const DecodedChar c = decode_char(state.text, at);
    append_lowercase(c.code, out);
    at += c.num_bytes;
  }
  state.text = std::move(out);
}

void strip(NormalizedText& state, bool left, bool right) {
  std::string_view text = state.text;
  while (right && !text.empty()) {
    const DecodedChar c = decode_char_before(text, text.size());
    if (!is_white_space(c.code)) break;
    text.remove_suffix(c.num_bytes);
  }
  while (left && !text.empty()) {
    const DecodedChar c = decode_char(text, 0);
    if (!is_white_space(c.code)) break;
    text.remove_prefix(c.num_bytes);
    state.keeps_start = false;
  }
  state.text = std::string(text);
}

}  // namespace

bool is_normalized_nfc_quick(std::string_view text) {
  return find_active(text, 0, kNfcActive) == text.size();
}

// A run is a character that cannot change and the active ones behind it: no normal form looks
// across the beginning of such a run, so each is mapped by itself.
std::string normalize_unicode(std::string_view text, UnicodeForm form) {
  const CharFlag flag = form == UnicodeForm::nfc ? kNfcActive : kFormsActive;
  std::string out;
  out.reserve(text.size());
  std::size_t done = 0;
  while (true) {
    const std::size_t active = find_active(text, done, flag);
    if (active == text.size()) break;
    const std::size_t end = active_run_end(text, active, flag);
    std::size_t begin = active;
    if (active > done) {
      const DecodedChar starter = decode_char_before(text, active);
      if (!is_newer_than_reference(starter.code) ||
          (CharTable::instance()[starter.code] & kFormsActive))
        begin -= starter.num_bytes;
    }
    out.append(text.substr(done, begin - done));
    append_mapped(text.substr(begin, end - begin), form, out);
    done = end;
  }
  out.append(text.substr(done));
  return out;
}

Normalizer::Normalizer(const JsonFields& component) {
  is_nfc_only_ = component.type() == "NFC";
  add(component, 0);
}

void Normalizer::add(const JsonFields& component, int depth) {
  const std::string type = component.type();
  const auto add_form = [&](UnicodeForm form) {
    steps_.push_back(
        [form](NormalizedText& state) { state.text = normalize_unicode(state.text, form); });
  };
  if (type == "Sequence" && depth < kMaxSequenceDepth) {
    for (std::size_t i = 0; i < component.list_size("normalizers"); ++i)
      add(component.element("normalizers", i), depth + 1);
  } else if (type == "NFC") {
    add_form(UnicodeForm::nfc);
  } else if (type == "NFD") {
    add_form(UnicodeForm::nfd);
  } else if (type == "NFKC") {
    add_form(UnicodeForm::nfkc);
  } else if (type == "NFKD") {
    add_form(UnicodeForm::nfkd);
  } else if (type == "Prepend") {
    steps_.push_back([prefix = component.string("prepend")](NormalizedText& state) {
      if (!state.text.empty()) state.text.insert(0, prefix);
    });
  } else if (type == "Replace") {
    const auto pattern = std::make_shared<const SplitPattern>(component);
    steps_.push_back([pattern, content = component.string("content")](NormalizedText& state) {
      state.text = pattern->replace_all(state.text, content);
    });
  } else if (type == "Lowercase") {
    steps_.push_back(lowercase);
  } else if (type == "Strip") {
    const bool left = component.boolean("strip_left", true),
               right = component.boolean("strip_right", true);
    steps_.push_back([left, right](NormalizedText& state) { strip(state, left, right); });
  } else {
    component.unsupported(fmt::format("is the normalizer '{}', which is not supported", type));
  }
}

NormalizedText Normalizer::apply(std::string_view text) const {
  NormalizedText state{std::string(text)};
  for (const auto& step : steps_) step(state);
  return state;
}

}  // namespace wmtp::tokenizer
