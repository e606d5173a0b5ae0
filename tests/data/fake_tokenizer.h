// A tokenizer whose ids can be worked out by hand: byte + 4, but "\nX" is one token (so that prompt
// and output may merge) and <|im_start|>, <|im_end|> are special.
#pragma once
#include <string>
#include <utility>

#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::data::test {

class FakeTokenizer : public tokenizer::Tokenizer {
 public:
  static constexpr tokenizer::TokenId kBos = 1, kEos = 2, kMerged = 260, kStart = 261, kEnd = 262;

  explicit FakeTokenizer(bool adds_bos = true, std::int64_t vocab_size = 300)
      : adds_bos_(adds_bos),
        vocab_size_(vocab_size),
        fingerprint_(adds_bos ? "fake+bos" : "fake") {}

  void encode(std::string_view text, const tokenizer::EncodeOptions& options,
              std::vector<tokenizer::TokenId>& out) const override {
    for (std::size_t i = 0; i < text.size();) {
      bool special = options.allow_special;
      for (const auto& span : options.special_spans)
        special = special || (i >= span.begin && i < span.end);
      const std::string_view rest = text.substr(i);
      if (special && rest.starts_with("<|im_start|>")) {
        out.push_back(kStart), i += 12;
      } else if (special && rest.starts_with("<|im_end|>")) {
        out.push_back(kEnd), i += 10;
      } else if (rest.starts_with("\nX")) {
        out.push_back(kMerged), i += 2;
      } else {
        out.push_back(static_cast<unsigned char>(text[i]) + 4), i += 1;
      }
    }
  }
  std::string decode(std::span<const tokenizer::TokenId> ids, bool) const override {
    std::string text;
    for (tokenizer::TokenId id : ids) text += piece(id);
    return text;
  }
  std::string_view kind() const override { return "fake"; }
  std::int64_t vocab_size() const override { return vocab_size_; }
  std::string piece(tokenizer::TokenId id) const override {
    if (id == kBos) return "<s>";
    if (id == kEos) return "</s>";
    if (id == kMerged) return "\nX";
    if (id == kStart) return "<|im_start|>";
    if (id == kEnd) return "<|im_end|>";
    return std::string(1, static_cast<char>(id - 4));
  }
  std::optional<tokenizer::TokenId> id_of(std::string_view piece) const override {
    if (piece == "<|im_start|>") return kStart;
    if (piece == "<|im_end|>") return kEnd;
    if (piece == "</s>") return kEos;
    return std::nullopt;
  }
  std::optional<tokenizer::TokenId> bos_id() const override { return kBos; }
  std::optional<tokenizer::TokenId> eos_id() const override { return kEos; }
  bool adds_bos() const override { return adds_bos_; }
  const std::string& fingerprint() const override { return fingerprint_; }

 private:
  bool adds_bos_;
  std::int64_t vocab_size_;
  std::string fingerprint_;
};

}  // namespace wmtp::data::test
