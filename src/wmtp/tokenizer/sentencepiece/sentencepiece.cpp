#include "wmtp/tokenizer/sentencepiece/sentencepiece.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/checksum.h"
#include "wmtp/core/error.h"
#include "wmtp/tokenizer/bpe/piece_cache.h"
#include "wmtp/tokenizer/sentencepiece/sentencepiece_merge.h"
#include "wmtp/tokenizer/text/unicode.h"

namespace wmtp::tokenizer {
namespace {

[[noreturn]] void damaged(std::string_view fact) {
  throw Error(ErrorKind::data, "tokenizer", fmt::format("tokenizer.model: {}", fact),
              "is this a SentencePiece model, and complete?");
}

bool is_mergeable(PieceType type) {
  return type == PieceType::normal || type == PieceType::user_defined || type == PieceType::unused;
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(SentencePieceModel model,
                                               const TokenizerSettings& settings,
                                               std::string_view file_bytes)
    : model_(std::move(model)), number_(next_model_number()) {
  index_pieces();
  separable_ = is_separable();
  bos_id_ = control_id(settings.bos_token.value_or(model_.bos_piece));
  eos_id_ = control_id(settings.eos_token.value_or(model_.eos_piece));
  if (settings.pad_token) pad_id_ = control_id(*settings.pad_token);
  adds_bos_ = bos_id_ && settings.add_bos_token.value_or(true);
  adds_eos_ = eos_id_ && settings.add_eos_token.value_or(false);
  Sha256 digest;
  digest.update(file_bytes);
  digest.update(fmt::format("\nbos={} eos={} adds_bos={} adds_eos={}", bos_id_.value_or(-1),
                            eos_id_.value_or(-1), adds_bos_, adds_eos_));
  fingerprint_ = to_hex(digest.finish());
}

void SentencePieceTokenizer::index_pieces() {
  std::vector<AddedToken> user_defined;
  std::vector<std::string> contents;
  std::array<int, 7> num_of_type{};
  byte_ids_.fill(-1);
  for (std::size_t i = 0; i < model_.pieces.size(); ++i) {
    const auto& [text, score, type] = model_.pieces[i];
    const auto id = static_cast<TokenId>(i);
    if (mergeable_.contains(text) || reserved_.contains(text))
      damaged(fmt::format("the piece '{}' is there twice", text));
    (is_mergeable(type) ? mergeable_ : reserved_).emplace(text, id);
    ++num_of_type[static_cast<std::size_t>(type)];
    if (type == PieceType::unknown) unk_id_ = id;
    if (type == PieceType::user_defined) {
      user_defined.push_back({.id = id, .content = text});
      contents.push_back(text);
    }
    if (type == PieceType::byte) {
      const std::optional<unsigned char> byte = fallback_byte(text);
      if (!byte) damaged(fmt::format("the byte piece '{}' is not of the form <0xHH>", text));
      byte_ids_[*byte] = id;
    }
  }
  has_unused_ = num_of_type[static_cast<std::size_t>(PieceType::unused)] > 0;
  if (const int count = num_of_type[static_cast<std::size_t>(PieceType::unknown)]; count != 1)
    damaged(fmt::format("{} pieces of type UNKNOWN, not 1", count));
  if (model_.byte_fallback && std::find(byte_ids_.begin(), byte_ids_.end(), -1) != byte_ids_.end())
    damaged("byte_fallback is set, but not all 256 byte pieces are there");
  user_defined_ = AddedTokenMatcher(std::move(user_defined), std::move(contents));
}

std::optional<TokenId> SentencePieceTokenizer::control_id(const std::string& piece) const {
  const std::optional<TokenId> id = id_of(piece);
  if (!id || checked_piece(*id).type != PieceType::control) return std::nullopt;
  return id;
}

// Words do not influence each other if no piece reaches from one into the next. Unused pieces are
// taken apart by what the whole sentence did, so with them the sentence stays whole.
bool SentencePieceTokenizer::is_separable() const {
  if (!model_.escape_whitespaces || has_unused_) return false;
  for (const auto& [text, id] : mergeable_)
    if (word_end(text, 0) != text.size() &&
        model_.pieces[static_cast<std::size_t>(id)].type == PieceType::normal)
      return false;
  return true;
}

std::string SentencePieceTokenizer::normalize(std::string_view text) const {
  const bool squeeze = model_.remove_extra_whitespaces;
  const std::string_view space = model_.escape_whitespaces ? kMetaspace : std::string_view(" ");
  std::vector<std::string_view> chunks;  // user-defined pieces whole, the rest by characters
  for (const Section& section : user_defined_.split(text, true)) {
    if (section.id >= 0) {
      chunks.push_back(text.substr(section.begin, section.end - section.begin));
      continue;
    }
    for (std::size_t at = section.begin; at < section.end;) {
      const std::size_t length = decode_char(text, at).num_bytes;
      chunks.push_back(text.substr(at, length));
      at += length;
    }
  }
  std::size_t first = 0;
  while (squeeze && first < chunks.size() && chunks[first] == " ") ++first;
  if (first == chunks.size()) return {};
  std::string out;
  out.reserve(text.size() + text.size() / 4 + 3);
  if (model_.add_dummy_prefix) out += space;
  bool previous_space = squeeze;
  for (std::size_t i = first; i < chunks.size(); ++i) {
    std::string_view chunk = chunks[i];
    while (previous_space && chunk.starts_with(' ')) chunk.remove_prefix(1);
    for (const char byte : chunk) {
      if (byte == ' ')
        out += space;
      else
        out += byte;
    }
    if (!chunk.empty()) previous_space = squeeze && chunk.ends_with(' ');
  }
  while (squeeze && std::string_view(out).ends_with(space)) out.erase(out.size() - space.size());
  return out;
}

void SentencePieceTokenizer::encode(std::string_view text, const EncodeOptions& options,
                                    std::vector<TokenId>& out) const {
  require_valid_utf8(text);
  if (options.add_special && adds_bos_) out.push_back(*bos_id_);
  const auto first = static_cast<std::ptrdiff_t>(out.size());
  const std::string normalized = normalize(text);
  for (const Section& section : user_defined_.split(normalized, true)) {
    const std::string_view part =
        std::string_view(normalized).substr(section.begin, section.end - section.begin);
    if (section.id >= 0)
      out.push_back(section.id);
    else
      encode_segment(part, out);
  }
  if (!model_.byte_fallback) {  // a run of unknown characters is one unknown
    const auto both_unknown = [&](TokenId a, TokenId b) { return a == unk_id_ && b == unk_id_; };
    out.erase(std::unique(out.begin() + first, out.end(), both_unknown), out.end());
  }
  if (options.add_special && adds_eos_) out.push_back(*eos_id_);
}

void SentencePieceTokenizer::encode_segment(std::string_view segment,
                                            std::vector<TokenId>& out) const {
  if (!separable_) return encode_word(segment, out);
  PieceCache& cache = PieceCache::local(number_);
  for (std::size_t at = 0; at < segment.size();) {
    const std::size_t end = word_end(segment, at);
    const std::string_view word = segment.substr(at, end - at);
    at = end;
    if (word.size() > PieceCache::kMaxPieceBytes) {
      encode_word(word, out);
      continue;
    }
    const PieceCache::Key key = PieceCache::key_of(word, word.size());
    PieceCache::Entry& entry = cache.slot(key);
    if (!(entry.key == key)) {
      std::vector<TokenId> ids;
      encode_word(word, ids);
      cache.store(entry, key, ids);
      out.insert(out.end(), ids.begin(), ids.end());
    } else {
      out.insert(out.end(), entry.ids, entry.ids + entry.num_ids);
    }
  }
}

void SentencePieceTokenizer::encode_word(std::string_view word, std::vector<TokenId>& out) const {
  ScoredMerger merger(word, mergeable_, model_.pieces);
  merger.run();
  merger.for_each([&](std::string_view symbol) { emit(symbol, out); });
}

void SentencePieceTokenizer::emit(std::string_view symbol, std::vector<TokenId>& out) const {
  const TokenId id = id_of(symbol).value_or(unk_id_);
  if (id != unk_id_ || !model_.byte_fallback) return out.push_back(id);
  for (const char byte : symbol) out.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
}

const SentencePieceModel::Piece& SentencePieceTokenizer::checked_piece(TokenId id) const {
  if (id < 0 || id >= vocab_size()) throw_unknown_id(id, vocab_size());
  return model_.pieces[static_cast<std::size_t>(id)];
}

std::string SentencePieceTokenizer::piece(TokenId id) const {
  return checked_piece(id).text;
}

std::optional<TokenId> SentencePieceTokenizer::id_of(std::string_view piece) const {
  for (const PieceIds* ids : {&reserved_, &mergeable_})
    if (const auto found = ids->find(piece); found != ids->end()) return found->second;
  return std::nullopt;
}

std::string SentencePieceTokenizer::surface_of(TokenId id, bool at_start, bool* took_space) const {
  const SentencePieceModel::Piece& piece = checked_piece(id);
  *took_space = false;
  if (piece.type == PieceType::control) return {};
  if (piece.type == PieceType::unknown) return model_.unk_surface;
  std::string_view text = piece.text;
  if (at_start && (model_.add_dummy_prefix || model_.remove_extra_whitespaces) &&
      text.starts_with(kMetaspace)) {
    text.remove_prefix(kMetaspace.size());
    *took_space = !model_.remove_extra_whitespaces;
  }
  std::string out;
  while (true) {
    const std::size_t at = text.find(kMetaspace);
    out += text.substr(0, at);
    if (at == std::string_view::npos) return out;
    out += ' ';
    text.remove_prefix(at + kMetaspace.size());
  }
}

std::string SentencePieceTokenizer::decode(std::span<const TokenId> ids, bool) const {
  std::string out, bytes;
  const auto flush_bytes = [&] {  // one U+FFFD for each byte that is no part of a character
    while (!bytes.empty()) {
      const std::size_t valid = valid_utf8_prefix(bytes);
      out.append(bytes, 0, valid);
      bytes.erase(0, valid);
      if (bytes.empty()) break;
      out += kReplacementChar;
      bytes.erase(0, 1);
    }
  };
  bool at_start = true, took_space = false;
  for (const TokenId id : ids) {
    if (checked_piece(id).type == PieceType::byte) {
      bytes.push_back(static_cast<char>(*fallback_byte(checked_piece(id).text)));
      continue;
    }
    flush_bytes();
    if (took_space || !out.empty()) at_start = false;
    out += surface_of(id, at_start, &took_space);
  }
  flush_bytes();
  return out;
}

TokenizerDescription SentencePieceTokenizer::describe() const {
  TokenizerDescription description;
  for (std::size_t i = 0; i < model_.pieces.size(); ++i) {
    const SentencePieceModel::Piece& piece = model_.pieces[i];
    if (piece.type == PieceType::control || piece.type == PieceType::user_defined ||
        piece.type == PieceType::unknown)
      description.added_tokens.push_back(
          {static_cast<TokenId>(i), piece.text, piece.type != PieceType::user_defined});
  }
  return description;
}

}  // namespace wmtp::tokenizer
