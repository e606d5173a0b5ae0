// Pieces of manifest text, shared by the manifest and by the part each rank posts for it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/checkpoint/format/manifest.h"
#include "wmtp/core/json.h"

namespace wmtp::checkpoint {

void append_string(std::string& out, std::string_view text);  // JSON, quoted
void append_table(std::string& out, const TensorTable& table);
void append_files(std::string& out, const std::vector<FileRecord>& files);

// A rank's contribution: its files and the tensors they hold pieces of. `state_hash` covers the
// state that every rank must hold alike.
struct RankPart {
  TensorTable model_tensors, optim_tensors;
  std::vector<FileRecord> files;
  std::string state_hash;
};
std::string to_text(const RankPart& part);
RankPart parse_part(std::string_view text, std::string_view origin);  // ErrorKind::comm when bad

// Strict readers: a missing or unknown key, a wrong type or a number out of range is an Error of
// ErrorKind::data with the key's path.
class FieldReader {
 public:
  FieldReader(const Json& object, std::string path);
  const Json& at(std::string_view key);  // REQUIRED
  std::string text(std::string_view key);
  std::int64_t integer(std::string_view key, std::int64_t minimum);
  std::uint32_t crc(std::string_view key);
  std::string digest(std::string_view key);
  std::vector<std::int64_t> extents(std::string_view key);
  bool has(std::string_view key) const { return object_.contains(key); }
  void finish() const;  // no key may be left unread
  [[noreturn]] void refuse(std::string_view fact) const;

 private:
  const Json& object_;
  std::string path_;
  std::size_t num_read_ = 0;
};
TensorTable read_table(const Json& object, const std::string& path);
std::vector<FileRecord> read_files(const Json& list, const std::string& path);

}  // namespace wmtp::checkpoint
