#include "wmtp/data/tokens/token_cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/planted_fault.h"

namespace wmtp::data {

FileFormat cache_format() {
  return {"WMTPTOK1", 1, "build it again: wmtp data tokenize --force FILE"};
}

Sha256Digest cache_key(const CacheIdentity& identity) {
  const EncodeSettings& encode = identity.encode;
  std::string text = fmt::format(
      "wtok {}\ntokenizer {}\ndata {}\nadd_bos {}\nallow_special_tokens {}\n",
      cache_format().version, identity.tokenizer_fingerprint, to_hex(identity.data_fingerprint),
      config::name_of(encode.add_bos), encode.allow_special_tokens);
  text += fmt::format("max_line_bytes {}\n", identity.bad_lines.max_line_bytes);
  if (identity.kind == CacheKind::rows) {
    text += fmt::format("rows\ntemplate {}\ntokenize {}\nappend_eos {}\n",
                        tokenizer::name_of(encode.prompt_template),
                        config::name_of(encode.tokenize), encode.append_eos);
  } else {
    const config::TextData& options = identity.text;
    text += fmt::format(
        "documents\ncolumn {}\nseparator {}\neos_between {}\nseparator_id {}\nskip_empty {}\n",
        options.column, config::name_of(options.document_separator), options.eos_between,
        options.separator_id ? std::to_string(*options.separator_id) : "eos", options.skip_empty);
    text += fmt::format("on_bad_line {}\n", config::name_of(identity.bad_lines.on_bad_line));
  }
  return sha256(text);
}

TokenCache TokenCache::open(const std::filesystem::path& path) {
  return TokenCache(SectionFile::open(path, cache_format()));
}

TokenCache::TokenCache(SectionFile file)
    : file_(std::move(file)), facts_(file_.facts<CacheFacts>()) {
  const std::uint64_t rows = facts_.num_rows;
  if (rows >= 0xFFFFFFFF) damaged("more than 2^32 - 2 rows");
  if (facts_.token_bytes != 2 && facts_.token_bytes != 4) damaged("token width is neither 2 nor 4");
  row_start_ = file_.section<std::uint64_t>(0, rows + 1);
  prompt_len_ = file_.section<std::uint32_t>(1, rows);
  row_flags_ = file_.section<std::uint8_t>(2, rows);
  if (facts_.token_bytes == 2)
    file_.section<std::uint16_t>(3, facts_.num_tokens);
  else
    file_.section<std::uint32_t>(3, facts_.num_tokens);
  for (std::size_t i = 0; i < 3; ++i) file_.verify_section(i);
  check();
}

void TokenCache::check() const {
  if (row_start_.front() != 0 || row_start_.back() != facts_.num_tokens ||
      !std::is_sorted(row_start_.begin(), row_start_.end()))
    damaged("the row table is damaged");
  for (std::uint32_t row = 0; row < num_rows(); ++row)
    if (prompt_len_[row] > row_start_[row + 1] - row_start_[row] + planted_off_by_one)
      damaged(fmt::format("row {} has a prompt longer than itself", row));
}

void TokenCache::copy(std::uint64_t begin, std::span<std::int32_t> out) const {
  WMTP_CHECK(begin <= facts_.num_tokens && out.size() <= facts_.num_tokens - begin,
             "token range outside the cache");
  if (facts_.token_bytes == 2)
    copy_as<std::uint16_t>(begin, out);
  else
    copy_as<std::uint32_t>(begin, out);
}

template <class T>
void TokenCache::copy_as(std::uint64_t begin, std::span<std::int32_t> out) const {
  const auto ids = file_.section<T>(3, facts_.num_tokens).subspan(begin, out.size());
  file_.verify(std::as_bytes(ids));
  T highest = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    highest = std::max(highest, ids[i]);
    out[i] = static_cast<std::int32_t>(ids[i]);
  }
  if (!ids.empty() && highest >= facts_.vocab_size)
    damaged(fmt::format("token id {} of a vocabulary of {}", highest, facts_.vocab_size));
}

void TokenCache::damaged(std::string_view fact) const {
  throw Error(ErrorKind::data, "data", fmt::format("{}: {}", path().string(), fact),
              cache_format().rebuild_hint);
}

}  // namespace wmtp::data
