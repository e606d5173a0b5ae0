#include "wmtp/tokenizer/stream_decoder.h"

#include "wmtp/tokenizer/text/unicode.h"

#include <string_view>

namespace wmtp::tokenizer {
namespace {

// Of an incomplete character there are at most three bytes. In a run of byte tokens they make the
// complete character before them, of four bytes at most, unreadable too.
constexpr int kMaxHeldChars = 7;

std::size_t certain_end(std::string_view text) {
  for (int i = 0; i < kMaxHeldChars && text.ends_with(kReplacementChar); ++i)
    text.remove_suffix(kReplacementChar.size());
  return text.size();
}

}  // namespace

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

std::string StreamDecoder::emit_up_to(const std::string& text, std::size_t end) {
  if (end <= emitted_bytes_) return {};
  std::string out = text.substr(emitted_bytes_, end - emitted_bytes_);
  emitted_bytes_ = end;
  return out;
}

std::string StreamDecoder::push(TokenId id) {
  window_.push_back(id);
  const std::string text = tokenizer_->decode(window_, skip_special_);
  const std::size_t end = certain_end(text);
  std::string out = emit_up_to(text, end);
  holds_ = end != text.size();
  if (holds_) return out;
  // All is out: keep only the newest tokens, as context, if they show as text by themselves.
  const std::vector<TokenId> newest(window_.begin() + static_cast<std::ptrdiff_t>(context_tokens_),
                                    window_.end());
  const std::string newest_text = tokenizer_->decode(newest, skip_special_);
  if (newest_text.empty()) return out;
  window_ = newest;
  context_tokens_ = window_.size();
  emitted_bytes_ = newest_text.size();
  return out;
}

std::string StreamDecoder::finish() {
  const std::string text = tokenizer_->decode(window_, skip_special_);
  std::string out = emit_up_to(text, text.size());
  window_.clear();
  context_tokens_ = emitted_bytes_ = 0;
  holds_ = false;
  return out;
}

std::vector<std::string> token_texts(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  const std::shared_ptr<const Tokenizer> borrowed(std::shared_ptr<void>(), &tokenizer);
  StreamDecoder stream(borrowed, false);
  std::vector<std::string> texts;
  texts.reserve(ids.size());
  std::size_t first = 0;  // of the tokens whose text is not certain yet
  for (const TokenId id : ids) {
    if (!stream.holds()) first = texts.size();
    texts.emplace_back();
    texts[first] += stream.push(id);
  }
  if (!texts.empty()) texts[first] += stream.finish();
  return texts;
}

}  // namespace wmtp::tokenizer
