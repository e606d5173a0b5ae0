#define PCRE2_CODE_UNIT_WIDTH 8
#include "wmtp/tokenizer/text/regex.h"

#include <fmt/format.h>
#include <pcre2.h>

#include "wmtp/core/error.h"

namespace wmtp::tokenizer {
namespace {

constexpr std::size_t kMaxPatternBytes = std::size_t{16} << 10;
constexpr std::uint32_t kMatchLimit = 1'000'000;
constexpr std::uint32_t kHeapLimit_kib = 16 * 1024;

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

std::string message_of(int code) {
  unsigned char buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Compiled {
  std::unique_ptr<pcre2_code, FreeCode> code;
  std::unique_ptr<pcre2_match_context, FreeContext> context;
  Alphabet alphabet;
  std::string place;
};

Regex::Regex(std::string_view pattern, std::string_view place) : compiled_(new Compiled) {
  if (pattern.size() > kMaxPatternBytes)
    throw Error(ErrorKind::data, "tokenizer",
                fmt::format("{}: a pattern of {} bytes exceeds the limit of {}", place,
                            pattern.size(), kMaxPatternBytes));
  TranslatedPattern translated = translate_pattern(pattern, place);
  compiled_->alphabet = std::move(translated.alphabet);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // Ruby's dialect: ^ and $ are always those of lines.
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.text.data()),
                                      translated.text.size(), PCRE2_UTF | PCRE2_MULTILINE, &error,
                                      &offset, nullptr));
  if (!compiled_->code)
    throw Error(ErrorKind::data, "tokenizer",
                fmt::format("{}: the pattern does not compile: {}", place, message_of(error)));
  pcre2_jit_compile(compiled_->code.get(),
                    PCRE2_JIT_COMPLETE);  // no JIT here: the interpreter serves
  compiled_->context.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(compiled_->context.get(), kMatchLimit);
  pcre2_set_heap_limit(compiled_->context.get(), kHeapLimit_kib);
  compiled_->place = place;
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

std::string Regex::prepare(std::string_view text) const {
  return compiled_->alphabet.fold(text);
}

std::optional<ByteSpan> Regex::find(std::string_view prepared, std::size_t from) const {
  const std::unique_ptr<pcre2_match_data, FreeMatch> data(pcre2_match_data_create(1, nullptr));
  const auto match = [&](std::uint32_t options) {
    return pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(prepared.data()),
                       prepared.size(), from, PCRE2_NO_UTF_CHECK | options, data.get(),
                       compiled_->context.get());
  };
  int result = match(0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0)
    throw Error(ErrorKind::data, "tokenizer",
                fmt::format("{}: the pattern gave up at byte {} of a text of {} bytes: {}",
                            compiled_->place, from, prepared.size(), message_of(result)),
                "the pattern backtracks too much on this text");
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
  return ByteSpan{ends[0], ends[1]};
}

}  // namespace wmtp::tokenizer
