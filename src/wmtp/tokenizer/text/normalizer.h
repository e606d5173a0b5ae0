// The `normalizer` of a tokenizer.json: NFC, NFD, NFKC, NFKD, Prepend, Replace, Lowercase, Strip,
// and a Sequence of these.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/tokenizer/json_fields.h"

namespace wmtp::tokenizer {

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };

// As the reference's normaliser, which knows fewer characters than utf8proc: those newer ones it
// leaves alone. Text without a character that can change is returned as it is.
std::string normalize_unicode(std::string_view text, UnicodeForm form);
bool is_normalized_nfc_quick(std::string_view text);  // true: certainly unchanged by NFC

struct NormalizedText {
  std::string text;
  bool keeps_start = true;  // the first character still stands for the text's first byte
};

class Normalizer {
 public:
  Normalizer() = default;                            // does nothing
  explicit Normalizer(const JsonFields& component);  // Error config: unknown component

  bool is_nothing() const { return steps_.empty(); }
  bool is_nfc_only() const { return is_nfc_only_; }
  NormalizedText apply(std::string_view text) const;

 private:
  void add(const JsonFields& component, int depth);

  std::vector<std::function<void(NormalizedText&)>> steps_;
  bool is_nfc_only_ = false;
};

}  // namespace wmtp::tokenizer
