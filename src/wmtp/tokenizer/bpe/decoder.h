// The `decoder` of a tokenizer.json: ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip,
// BPEDecoder, and a Sequence of these.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/tokenizer/json_fields.h"

namespace wmtp::tokenizer {

// The byte a `<0xHH>` token stands for.
std::optional<unsigned char> fallback_byte(std::string_view token);

class Decoder {
 public:
  Decoder() = default;                            // tokens joined by spaces
  explicit Decoder(const JsonFields& component);  // Error config: unknown component

  std::string apply(std::vector<std::string> tokens) const;

 private:
  void add(const JsonFields& component, int depth);

  std::vector<std::function<void(std::vector<std::string>&)>> steps_;
  bool is_given_ = false;
};

}  // namespace wmtp::tokenizer
