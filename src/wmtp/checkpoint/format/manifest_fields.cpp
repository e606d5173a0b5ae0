#include <fmt/format.h>

#include <charconv>

#include "wmtp/checkpoint/format/manifest_text.h"
#include "wmtp/checkpoint/kv_exchange.h"
#include "wmtp/core/error.h"
#include "wmtp/core/planted_fault.h"

namespace wmtp::checkpoint {
namespace {

constexpr std::size_t kMaxTensors = 1'000'000, kMaxBoxes = 4'000'000, kMaxNameBytes = 4096;
constexpr JsonLimits kPartLimits{.max_bytes = kMaxVoteBytes, .max_depth = 8};

bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == text.npos;
}

BoxRecord read_box(const std::string& name, const Json& object, const std::string& path) {
  FieldReader fields(object, path);
  BoxRecord box{.tensor = name,
                .offsets = fields.extents("offsets"),
                .shape = fields.extents("shape"),
                .crc32c = fields.crc("crc32c")};
  fields.finish();
  return box;
}

FileRecord read_file_record(const Json& object, const std::string& path) {
  FieldReader fields(object, path);
  FileRecord file;
  file.path = fields.text("path");
  file.bytes = static_cast<std::uint64_t>(fields.integer("bytes", 0));
  file.sha256 = fields.digest("sha256");
  if (!fields.has("tensors")) {
    file.crc32c = fields.crc("crc32c");
  } else {
    file.crc32c = fields.crc("header_crc32c");
    const Json& boxes = fields.at("tensors");
    if (!boxes.is_object() || boxes.empty()) fields.refuse("\"tensors\" holds no boxes");
    for (const auto& [name, box] : boxes.items())
      file.boxes.push_back(read_box(name, box, fmt::format("{}.tensors.{:.80}", path, name)));
  }
  fields.finish();
  return file;
}

}  // namespace

FieldReader::FieldReader(const Json& object, std::string path)
    : object_(object), path_(std::move(path)) {
  if (!object.is_object()) refuse("it is no object");
}

void FieldReader::refuse(std::string_view fact) const {
  throw Error(ErrorKind::data, "checkpoint", fmt::format("{}: {}", path_, fact));
}

const Json& FieldReader::at(std::string_view key) {
  const auto found = object_.find(key);
  if (found == object_.end()) refuse(fmt::format("the key \"{}\" is missing", key));
  ++num_read_;
  return *found;
}

std::string FieldReader::text(std::string_view key) {
  const Json& value = at(key);
  if (!value.is_string()) refuse(fmt::format("\"{}\" is no text", key));
  return value.get<std::string>();
}

std::int64_t FieldReader::integer(std::string_view key, std::int64_t minimum) {
  const Json& value = at(key);
  if (!value.is_number_integer()) refuse(fmt::format("\"{}\" is no integer", key));
  const bool fits = !value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX;
  if (!fits || value.get<std::int64_t>() < minimum)
    refuse(fmt::format("\"{}\" is {}, at least {} was expected", key, value.dump(), minimum));
  return value.get<std::int64_t>();
}

std::uint32_t FieldReader::crc(std::string_view key) {
  const std::string digits = text(key);
  std::uint32_t value = 0;
  if (digits.size() != 8 || !is_hex(digits))
    refuse(fmt::format("\"{}\" is no CRC of 8 hex digits", key));
  std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return value;
}

std::string FieldReader::digest(std::string_view key) {
  std::string digits = text(key);
  if (digits.size() < 64 || digits.size() > 64 + planted_off_by_one || !is_hex(digits))
    refuse(fmt::format("\"{}\" is no SHA-256 of 64 hex digits", key));
  return digits;
}

std::vector<std::int64_t> FieldReader::extents(std::string_view key) {
  const Json& list = at(key);
  if (!list.is_array() || list.empty() || list.size() > 2)
    refuse(fmt::format("\"{}\" is no list of one or two numbers", key));
  std::vector<std::int64_t> values;
  for (const Json& value : list) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > INT64_MAX)
      refuse(fmt::format("\"{}\" holds {:.40}", key, value.dump()));
    values.push_back(value.get<std::int64_t>());
  }
  return values;
}

void FieldReader::finish() const {
  if (num_read_ != object_.size())
    refuse(fmt::format("{} keys, {} were expected", object_.size(), num_read_));
}

TensorTable read_table(const Json& object, const std::string& path) {
  if (!object.is_object() || object.size() > kMaxTensors)
    throw Error(ErrorKind::data, "checkpoint",
                fmt::format("{}: no object of at most {} tensors", path, kMaxTensors));
  TensorTable table;
  for (const auto& [name, value] : object.items()) {
    FieldReader fields(value, fmt::format("{}.{:.80}", path, name));
    if (name.empty() || name.size() > kMaxNameBytes) fields.refuse("a name of such a length");
    const auto dtype = storage::stored_dtype(fields.text("dtype"));
    if (!dtype) fields.refuse("unknown dtype");
    table[name] = {*dtype, fields.extents("shape")};
    if (!storage::tensor_bytes(*dtype, table[name].shape)) fields.refuse("the size overflows");
    fields.finish();
  }
  return table;
}

std::vector<FileRecord> read_files(const Json& list, const std::string& path) {
  if (!list.is_array())
    throw Error(ErrorKind::data, "checkpoint", fmt::format("{}: no list", path));
  std::vector<FileRecord> files;
  std::size_t num_boxes = 0;
  for (const Json& item : list) {
    files.push_back(read_file_record(item, fmt::format("{}[{}]", path, files.size())));
    num_boxes += files.back().boxes.size();
    if (num_boxes > kMaxBoxes)
      throw Error(ErrorKind::data, "checkpoint",
                  fmt::format("{}: more than {} boxes", path, kMaxBoxes));
  }
  return files;
}

RankPart parse_part(std::string_view text, std::string_view origin) try {
  const Json root = parse_json(text, origin, kPartLimits);
  FieldReader fields(root, std::string(origin));
  RankPart part;
  part.state_hash = fields.text("state");
  part.model_tensors = read_table(fields.at("model"), "model");
  part.optim_tensors = read_table(fields.at("optim"), "optim");
  part.files = read_files(fields.at("files"), "files");
  fields.finish();
  return part;
} catch (const Error& error) {  // no file is to blame: it came from another rank
  throw Error(ErrorKind::comm, "checkpoint", error.fact(), error.hint());
}

}  // namespace wmtp::checkpoint
