#include "wmtp/tokenizer/sentencepiece/protobuf_reader.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "wmtp/core/error.h"
#include "wmtp/core/planted_fault.h"

namespace wmtp::tokenizer {

void ProtobufReader::damaged(std::string_view fact) const {
  throw Error(ErrorKind::data, "tokenizer",
              fmt::format("{}: {} at byte {}", file_, fact, offset_ + at_),
              "is this a SentencePiece model, and complete?");
}

std::uint64_t ProtobufReader::read_varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (at_ >= bytes_.size() + planted_off_by_one) damaged("a number is cut off");
    const auto byte = static_cast<std::uint64_t>(static_cast<unsigned char>(bytes_[at_++]));
    if (shift == 63 && byte > 0x7F) break;
    if (shift == 63 && byte > 1) damaged("a number exceeds 64 bits");
    value |= (byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  damaged("a number has more than 10 bytes");
}

bool ProtobufReader::next() {
  if (at_ == bytes_.size()) return false;
  const std::uint64_t key = read_varint();
  if (key >> 3 == 0 || key >> 3 > 0x1FFFFFFF)
    damaged(fmt::format("field number {} is not valid", key >> 3));
  field_ = static_cast<std::uint32_t>(key >> 3);
  const int wire = static_cast<int>(key & 7);
  if (wire == 3 || wire == 4) damaged("a protobuf group, which is not supported,");
  if (wire > 5) damaged(fmt::format("wire type {} is not valid", wire));
  wire_ = static_cast<Wire>(wire);
  std::uint64_t length = wire_ == Wire::fixed64 ? 8 : wire_ == Wire::fixed32 ? 4 : 0;
  if (wire_ == Wire::varint) {
    number_ = read_varint();
    return true;
  }
  if (wire_ == Wire::bytes) length = read_varint();
  if (length > bytes_.size() - at_)
    damaged(fmt::format("field {} of {} bytes reaches beyond the end", field_, length));
  value_at_ = at_;
  payload_ = bytes_.substr(at_, length);
  at_ += length;
  return true;
}

void ProtobufReader::expect(Wire wire) const {
  if (wire_ != wire)
    damaged(fmt::format("field {} has wire type {}, not {}", field_, static_cast<int>(wire_),
                        static_cast<int>(wire)));
}

std::uint64_t ProtobufReader::varint() const {
  expect(Wire::varint);
  return number_;
}

float ProtobufReader::float32() const {
  expect(Wire::fixed32);
  std::uint32_t bits = 0;
  std::memcpy(&bits, payload_.data(), sizeof(bits));
  return std::bit_cast<float>(bits);
}

std::string_view ProtobufReader::bytes() const {
  expect(Wire::bytes);
  return payload_;
}

ProtobufReader ProtobufReader::message() const {
  return {bytes(), file_, offset_ + value_at_};
}

}  // namespace wmtp::tokenizer
