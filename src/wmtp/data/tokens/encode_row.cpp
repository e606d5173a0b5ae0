#include "wmtp/data/tokens/encode_row.h"

#include <algorithm>

#include "wmtp/core/error.h"

namespace wmtp::data {

RowEncoder::RowEncoder(const tokenizer::Tokenizer& tokenizer, const EncodeSettings& settings)
    : tokenizer_(tokenizer), settings_(settings) {
  const bool wants_bos = settings.add_bos == AutoBool::yes ||
                         (settings.add_bos == AutoBool::automatic && tokenizer.adds_bos());
  if (wants_bos) {
    bos_ = tokenizer.bos_id();
    if (!bos_)
      throw Error(ErrorKind::config, "data",
                  "dataset.add_bos is true, but the tokenizer has no BOS token");
  }
}

namespace {

std::size_t common_prefix(const std::vector<tokenizer::TokenId>& a, std::size_t from,
                          const std::vector<tokenizer::TokenId>& b) {
  std::size_t count = 0;
  while (from + count < a.size() && count < b.size() && a[from + count] == b[count]) ++count;
  return count;
}

void cut(EncodedRow& row) {
  if (row.ids.size() <= kMaxRowTokens) return;
  row.ids.resize(kMaxRowTokens);
  row.prompt_len = std::min<std::uint32_t>(row.prompt_len, kMaxRowTokens);
  row.flags = static_cast<std::uint8_t>((row.flags & ~kTokenRowEos) | kTokenRowCut);
}

}  // namespace

void RowEncoder::encode(const Row& row, EncodedRow& out) const {
  const tokenizer::Prompt prompt =
      tokenizer::render_prompt(settings_.prompt_template, row.instruction, row.input);
  const tokenizer::EncodeOptions options{.allow_special = settings_.allow_special_tokens,
                                         .special_spans = prompt.special_spans};
  out = EncodedRow{};
  if (bos_) out.ids.push_back(*bos_), out.flags |= kTokenRowBos;
  const std::size_t start = out.ids.size();
  if (settings_.tokenize == Tokenize::joint) {
    tokenizer_.encode(prompt.text + std::string(row.output), options, out.ids);
    const auto prompt_ids = tokenizer_.Tokenizer::encode(prompt.text, options);
    const std::size_t shared = common_prefix(out.ids, start, prompt_ids);
    if (shared < prompt_ids.size()) out.flags |= kTokenRowMerged;
    out.prompt_len = static_cast<std::uint32_t>(start + shared);
  } else {
    tokenizer_.encode(prompt.text, options, out.ids);
    out.prompt_len = static_cast<std::uint32_t>(out.ids.size());
    tokenizer_.encode(row.output, {.allow_special = settings_.allow_special_tokens}, out.ids);
  }
  if (settings_.append_eos) {
    out.ids.push_back(tokenizer::end_of_response_id(settings_.prompt_template, tokenizer_));
    out.flags |= kTokenRowEos;
  }
  cut(out);
}

void RowEncoder::encode_document(const Document& document, std::optional<std::int32_t> separator,
                                 EncodedRow& out) const {
  out = EncodedRow{};
  if (bos_ && document.starts) out.ids.push_back(*bos_), out.flags |= kTokenRowBos;
  tokenizer_.encode(document.text, {.allow_special = settings_.allow_special_tokens}, out.ids);
  if (separator && document.ends) out.ids.push_back(*separator), out.flags |= kTokenRowEos;
  if (!document.starts) out.flags |= kTokenRowContinues;
}

}  // namespace wmtp::data
