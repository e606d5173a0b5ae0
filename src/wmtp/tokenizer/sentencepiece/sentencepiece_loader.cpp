// Reads and checks a SentencePiece tokenizer.model.
#include <fmt/format.h>

#include <cmath>

#include "wmtp/core/error.h"
#include "wmtp/tokenizer/sentencepiece/protobuf_reader.h"
#include "wmtp/tokenizer/sentencepiece/sentencepiece.h"
#include "wmtp/tokenizer/text/unicode.h"

namespace wmtp::tokenizer {
namespace {

constexpr std::size_t kMaxPieces = 4'194'304;
constexpr std::size_t kMaxPieceBytes = 4'096;

[[noreturn]] void unsupported(const std::string& file, std::string_view fact) {
  throw Error(ErrorKind::config, "tokenizer", fmt::format("{}: {}", file, fact),
              "use the model's tokenizer.json instead, if it has one");
}

SentencePieceModel::Piece read_piece(ProtobufReader reader) {
  SentencePieceModel::Piece piece;
  while (reader.next()) {
    if (reader.field() == 1) {
      piece.text = reader.bytes();
    } else if (reader.field() == 2) {
      piece.score = reader.float32();
      if (!std::isfinite(piece.score)) reader.damaged("a score that is not finite");
    } else if (reader.field() == 3) {
      const std::uint64_t type = reader.varint();
      if (type < 1 || type > 6) reader.damaged(fmt::format("unknown piece type {}", type));
      piece.type = static_cast<PieceType>(type);
    }
  }
  if (piece.text.empty()) reader.damaged("an empty piece");
  if (piece.text.size() > kMaxPieceBytes)
    reader.damaged(
        fmt::format("a piece of {} bytes (limit {})", piece.text.size(), kMaxPieceBytes));
  if (valid_utf8_prefix(piece.text) != piece.text.size())
    reader.damaged("a piece that is not UTF-8");
  return piece;
}

void read_trainer_spec(ProtobufReader reader, const std::string& file, SentencePieceModel& model) {
  std::uint64_t model_type = 1;
  while (reader.next()) {
    switch (reader.field()) {
      case 3:
        model_type = reader.varint();
        break;
      case 24:
        if (reader.boolean()) unsupported(file, "treat_whitespace_as_suffix is not supported");
        break;
      case 35:
        model.byte_fallback = reader.boolean();
        break;
      case 44:
        model.unk_surface = reader.bytes();
        break;
      case 46:
        model.bos_piece = reader.bytes();
        break;
      case 47:
        model.eos_piece = reader.bytes();
        break;
      default:
        break;
    }
  }
  constexpr const char* kTypes[] = {"0", "UNIGRAM", "BPE", "WORD", "CHAR"};
  if (model_type != 2)
    unsupported(file,
                fmt::format("the model type is {}; only BPE is supported",
                            model_type <= 4 ? kTypes[model_type] : std::to_string(model_type)));
}

void read_normalizer_spec(ProtobufReader reader, const std::string& file,
                          SentencePieceModel& model) {
  while (reader.next()) {
    switch (reader.field()) {
      case 2:
        if (!reader.bytes().empty())
          unsupported(file, fmt::format("a precompiled_charsmap of {} bytes is not supported",
                                        reader.bytes().size()));
        break;
      case 3:
        model.add_dummy_prefix = reader.boolean();
        break;
      case 4:
        model.remove_extra_whitespaces = reader.boolean();
        break;
      case 5:
        model.escape_whitespaces = reader.boolean();
        break;
      default:
        break;
    }
  }
}

void check_denormalizer_spec(ProtobufReader reader, const std::string& file) {
  while (reader.next())
    if (reader.field() == 2 && !reader.bytes().empty())
      unsupported(file, "a denormalizer with a precompiled_charsmap is not supported");
}

}  // namespace

SentencePieceModel read_sentencepiece(std::string_view bytes, const std::string& file) {
  if (bytes.size() > kMaxSentencePieceBytes)
    throw Error(ErrorKind::data, "tokenizer",
                fmt::format("{}: {} bytes exceed the limit of {}", file, bytes.size(),
                            kMaxSentencePieceBytes));
  SentencePieceModel model;
  bool has_trainer_spec = false;
  ProtobufReader reader(bytes, file);
  while (reader.next()) {
    if (reader.field() == 1) {
      if (model.pieces.size() == kMaxPieces)
        reader.damaged(fmt::format("more than {} pieces", kMaxPieces));
      model.pieces.push_back(read_piece(reader.message()));
    } else if (reader.field() == 2) {
      has_trainer_spec = true;
      read_trainer_spec(reader.message(), file, model);
    } else if (reader.field() == 3) {
      read_normalizer_spec(reader.message(), file, model);
    } else if (reader.field() == 5) {
      check_denormalizer_spec(reader.message(), file);
    }
  }
  if (model.pieces.empty()) reader.damaged("no pieces: the file ends");
  if (!has_trainer_spec) unsupported(file, "the model type is UNIGRAM; only BPE is supported");
  return model;
}

}  // namespace wmtp::tokenizer
