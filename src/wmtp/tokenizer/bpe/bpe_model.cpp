#include "wmtp/tokenizer/bpe/bpe_model.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/tokenizer/bpe/byte_level.h"
#include "wmtp/tokenizer/bpe/merge_loop.h"
#include "wmtp/tokenizer/text/unicode.h"

namespace wmtp::tokenizer {

BpeModel::BpeModel(BpeConfig config, std::string_view file)
    : config_(std::move(config)), number_(next_model_number()) {
  if (config_.unk_token) {
    const auto found = config_.vocab.find(*config_.unk_token);
    if (found == config_.vocab.end())
      throw Error(
          ErrorKind::data, "tokenizer",
          fmt::format("{}: unk_token '{}' is not in the vocabulary", file, *config_.unk_token));
    unk_id_ = found->second;
  }
  build_merges(file);
  build_tables();
  separable_ = is_separable();
}

void BpeModel::build_merges(std::string_view file) {
  merges_ = PairTable(config_.merges.size());
  const std::size_t prefix_bytes = config_.continuing_subword_prefix.size();
  for (std::size_t rank = 0; rank < config_.merges.size(); ++rank) {
    const auto& [left, right] = config_.merges[rank];
    const auto id_of = [&](const std::string& token) {
      const auto found = config_.vocab.find(token);
      if (found == config_.vocab.end())
        throw Error(
            ErrorKind::data, "tokenizer",
            fmt::format("{}: merge {} ('{}' + '{}') needs the token '{}', which is not in the "
                        "vocabulary",
                        file, rank, left, right, token));
      return found->second;
    };
    const TokenId left_id = id_of(left), right_id = id_of(right);
    if (right.size() < prefix_bytes)
      throw Error(ErrorKind::data, "tokenizer",
                  fmt::format("{}: merge {}: '{}' is shorter than continuing_subword_prefix", file,
                              rank, right));
    const TokenId product = id_of(left + right.substr(prefix_bytes));
    merges_.insert(left_id, right_id, {static_cast<std::uint32_t>(rank), product});
  }
}

void BpeModel::build_tables() {
  bmp_ids_.assign(0x10000, -1);
  for (const auto& [token, id] : config_.vocab) {
    if (token.empty()) continue;
    const DecodedChar first = decode_char(token, 0);
    if (first.num_bytes == token.size() && first.code < bmp_ids_.size()) bmp_ids_[first.code] = id;
  }
  byte_ids_.fill(-1);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const auto found = config_.vocab.find(fmt::format("<0x{:02X}>", byte));
    if (found != config_.vocab.end()) byte_ids_[byte] = found->second;
  }
}

// Llama-2 models see a whole document as one piece. Where no merge joins a character with a "▁"
// behind it, words do not influence each other and are encoded (and remembered) one by one.
bool BpeModel::is_separable() const {
  if (!config_.continuing_subword_prefix.empty() || !config_.end_of_word_suffix.empty())
    return false;
  if (!config_.vocab.contains(kMetaspace)) return false;
  const auto is_one_word = [](std::string_view token) {
    return word_end(token, 0) == token.size();
  };
  for (const auto& [left, right] : config_.merges)
    if (!is_one_word(left + right)) return false;
  if (config_.ignore_merges)
    for (const auto& entry : config_.vocab)
      if (!is_one_word(entry.first)) return false;
  return true;
}

bool BpeModel::use_raw_bytes() {
  if (!config_.continuing_subword_prefix.empty() || !config_.end_of_word_suffix.empty())
    return false;
  std::array<TokenId, 256> ids{};
  for (std::size_t byte = 0; byte < 256; ++byte) {
    ids[byte] = bmp_ids_[byte_level_alphabet()[byte]];
    if (ids[byte] < 0) return false;
  }
  byte_ids_ = ids;
  raw_bytes_ = true;
  separable_ = false;
  if (config_.ignore_merges)
    for (const auto& [token, id] : config_.vocab)
      if (auto bytes = from_byte_level(token)) raw_vocab_.emplace(std::move(*bytes), id);
  return true;
}

void BpeModel::encode(std::string_view piece, std::vector<TokenId>& out) const {
  PieceCache& cache = PieceCache::local(number_);
  if (!separable_) return encode_word(piece, piece.size(), cache, out);
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t end = word_end(piece, at);
    encode_word(piece.substr(at, end - at), piece.size() - at, cache, out);
    at = end;
  }
}

void BpeModel::encode_split(std::string_view text, KnownPattern pattern,
                            std::vector<TokenId>& out) const {
  PieceCache& cache = PieceCache::local(number_);
  const SplitScanner scanner(text, pattern);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = scanner.next(at);
    encode_word(text.substr(at, end - at), text.size() - at, cache, out);
    at = end;
  }
}

void BpeModel::encode_word(std::string_view word, std::size_t readable_bytes, PieceCache& cache,
                           std::vector<TokenId>& out) const {
  if (word.size() > PieceCache::kMaxPieceBytes) {
    std::vector<TokenId> ids;
    encode_uncached(word, ids);
    out.insert(out.end(), ids.begin(), ids.end());
    return;
  }
  const PieceCache::Key key = PieceCache::key_of(word, readable_bytes);
  PieceCache::Entry& entry = cache.slot(key);
  if (entry.key == key) {
    out.insert(out.end(), entry.ids, entry.ids + entry.num_ids);
    return;
  }
  std::vector<TokenId> ids;
  encode_uncached(word, ids);
  cache.store(entry, key, ids);
  out.insert(out.end(), ids.begin(), ids.end());
}

void BpeModel::encode_uncached(std::string_view word, std::vector<TokenId>& ids) const {
  if (config_.ignore_merges) {
    const Vocabulary& whole = raw_bytes_ ? raw_vocab_ : config_.vocab;
    if (const auto found = whole.find(word); found != whole.end()) {
      ids.push_back(found->second);
      return;
    }
  }
  ids.reserve(word.size());
  if (raw_bytes_)
    for (const char byte : word) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  else
    first_symbols(word, ids);
  merge_all(merges_, ids);
}

std::optional<TokenId> BpeModel::symbol_id(std::string_view character, bool is_first,
                                           bool is_last) const {
  const bool plain = (is_first || config_.continuing_subword_prefix.empty()) &&
                     (!is_last || config_.end_of_word_suffix.empty());
  if (plain) {
    const char32_t code = decode_char(character, 0).code;
    if (code < bmp_ids_.size()) {
      if (bmp_ids_[code] < 0) return std::nullopt;
      return bmp_ids_[code];
    }
  }
  std::string token;
  if (!is_first) token = config_.continuing_subword_prefix;
  token += character;
  if (is_last) token += config_.end_of_word_suffix;
  const auto found = config_.vocab.find(token);
  if (found == config_.vocab.end()) return std::nullopt;
  return found->second;
}

// As the reference does it, including that fallback bytes overtake a pending unknown.
void BpeModel::first_symbols(std::string_view word, std::vector<TokenId>& ids) const {
  std::optional<TokenId> pending_unk;
  const auto flush = [&] {
    if (pending_unk) ids.push_back(*pending_unk);
    pending_unk.reset();
  };
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t length = decode_char(word, at).num_bytes;
    const std::string_view character = word.substr(at, length);
    const bool is_first = at == 0, is_last = at + length == word.size();
    at += length;
    if (const std::optional<TokenId> id = symbol_id(character, is_first, is_last)) {
      flush();
      ids.push_back(*id);
      continue;
    }
    if (config_.byte_fallback) {
      std::string spelled = is_first ? "" : config_.continuing_subword_prefix;
      spelled += character;
      if (is_last) spelled += config_.end_of_word_suffix;
      bool all_known = true;
      for (const char byte : spelled) all_known &= byte_ids_[static_cast<unsigned char>(byte)] >= 0;
      if (all_known) {
        for (const char byte : spelled) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
        continue;
      }
    }
    if (!unk_id_) continue;
    if (pending_unk && !config_.fuse_unk) flush();
    pending_unk = unk_id_;
  }
  flush();
}

}  // namespace wmtp::tokenizer
