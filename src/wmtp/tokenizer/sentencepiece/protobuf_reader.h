// Walks the fields of one protobuf message. Checked against the end of the bytes; groups are
// refused.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace wmtp::tokenizer {

class ProtobufReader {
 public:
  // `file` and `offset` (of `bytes` in the file) are for errors. BORROWS both views.
  ProtobufReader(std::string_view bytes, std::string_view file, std::size_t offset = 0)
      : bytes_(bytes), file_(file), offset_(offset) {}

  // Moves to the next field; false at the end. Error data on anything malformed.
  bool next();
  std::uint32_t field() const { return field_; }

  // The field's value. Error data where the wire type is another one.
  std::uint64_t varint() const;
  bool boolean() const { return varint() != 0; }
  std::int32_t int32() const { return static_cast<std::int32_t>(varint()); }
  float float32() const;
  std::string_view bytes() const;
  ProtobufReader message() const;

  [[noreturn]] void damaged(std::string_view fact) const;

 private:
  enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  std::uint64_t read_varint();
  void expect(Wire wire) const;

  std::string_view bytes_, file_;
  std::size_t offset_;
  std::size_t at_ = 0, value_at_ = 0;
  std::uint32_t field_ = 0;
  Wire wire_ = Wire::varint;
  std::uint64_t number_ = 0;
  std::string_view payload_;
};

}  // namespace wmtp::tokenizer
