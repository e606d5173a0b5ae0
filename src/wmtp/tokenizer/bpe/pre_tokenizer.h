// The `pre_tokenizer` of a tokenizer.json: Split, ByteLevel, Metaspace, Digits, Punctuation,
// Whitespace, WhitespaceSplit, and a Sequence of these.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/tokenizer/json_fields.h"
#include "wmtp/tokenizer/text/split_pattern.h"

namespace wmtp::tokenizer {

struct PreToken {
  std::string text;
  bool at_start = false;  // its first character is the first of the whole input
};

// Split by a known pattern, then ByteLevel: what the model can do on raw bytes in one pass.
struct RawBytePlan {
  KnownPattern pattern = KnownPattern::gpt2;
  bool add_prefix_space = false;
};

class PreTokenizer {
 public:
  PreTokenizer() = default;                            // one piece, unchanged
  explicit PreTokenizer(const JsonFields& component);  // Error config: unknown component

  void apply(std::vector<PreToken>& pieces) const;  // empty pieces are dropped
  const std::optional<RawBytePlan>& raw_byte_plan() const { return raw_byte_plan_; }
  bool is_byte_level() const { return is_byte_level_; }
  const std::string& split_source() const { return split_source_; }  // for display; may be empty

 private:
  void add(const JsonFields& component, int depth);
  void add_split(const JsonFields& component);
  void add_byte_level(const JsonFields& component);
  void add_metaspace(const JsonFields& component);
  void add_by_flag(CharFlag flag, SplitBehavior behavior);

  using Step = std::function<void(const PreToken&, std::vector<PreToken>&)>;
  std::vector<Step> steps_;
  std::optional<RawBytePlan> raw_byte_plan_;
  std::optional<KnownPattern> first_known_split_;  // the only step so far is Split(known, Isolated)
  bool is_byte_level_ = false;
  std::string split_source_;
};

}  // namespace wmtp::tokenizer
