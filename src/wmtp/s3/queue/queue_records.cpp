#include "wmtp/s3/queue/queue_records.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "wmtp/core/checksum.h"
#include "wmtp/core/json.h"
#include "wmtp/storage/open_file.h"

namespace wmtp::s3 {
namespace {

constexpr std::int64_t kQueueVersion = 1;
constexpr std::size_t kCrcDigits = 8;

[[noreturn]] void refuse_queue(std::string_view fact) {
  throw Error(ErrorKind::data, "s3", fact);
}

// Texts of servers are stored as far as they are UTF-8: an UploadId that is none begins anew.
std::string record(const OrderedJson& json) {
  const std::string text = json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  return fmt::format("{:08x} {}\n", crc32c(text), text);
}

// The record at the front, which is taken off; nothing: it is not whole.
std::optional<Json> take_record(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == text.npos || end <= kCrcDigits || text[kCrcDigits] != ' ') return std::nullopt;
  const std::string_view body = text.substr(kCrcDigits + 1, end - kCrcDigits - 1);
  if (fmt::format("{:08x}", crc32c(body)) != text.substr(0, kCrcDigits)) return std::nullopt;
  text.remove_prefix(end + 1);
  return parse_json(body, "a record of the queue");
}

QueueEntry parse_first(const Json& json, std::string_view name) {
  const std::int64_t version = json.at("version").get<std::int64_t>();
  if (version != kQueueVersion)
    refuse_queue(fmt::format("it is of version {}, {} is known", version, kQueueVersion));
  QueueEntry entry;
  entry.name = json.at("name").get<std::string>();
  if (entry.name != name) refuse_queue("it is about another folder");
  entry.version = json.at("of").get<std::string>();
  entry.order = json.at("order").get<std::uint64_t>();
  for (const Json& file : json.at("files")) {
    QueuedFile& queued = entry.files.emplace_back();
    queued.path = file.at(0).get<std::string>();
    queued.bytes = file.at(1).get<std::uint64_t>();
    storage::check_relative_name(queued.path, "the queue");
  }
  if (entry.files.empty()) refuse_queue("it names no files");
  entry.pointers = json.at("pointers").get<std::vector<std::string>>();
  return entry;
}

void apply_record(const Json& json, QueueEntry& entry) {
  if (json.contains("pointer")) {
    entry.pointers.push_back(json.at("pointer").get<std::string>());
    return;
  }
  QueuedFile& file = entry.files.at(json.at("file").get<std::size_t>());
  if (json.contains("up")) {
    file.is_up = true;
    file.state = {};
  } else if (json.contains("part")) {
    file.state.parts[json.at("part").get<int>()] = {json.at("etag").get<std::string>(),
                                                    json.at("md5").get<std::string>()};
  } else {
    file.state = {
        json.at("upload_id").get<std::string>(), json.at("part_bytes").get<std::uint64_t>(), {}};
  }
}

}  // namespace

std::string begin_record(std::size_t file, const UploadState& state) {
  return record({{"file", file}, {"upload_id", state.upload_id}, {"part_bytes", state.part_bytes}});
}

std::string part_record(std::size_t file, int number, const UploadState::Part& part) {
  return record({{"file", file}, {"part", number}, {"etag", part.etag}, {"md5", part.md5_hex}});
}

std::string up_record(std::size_t file) {
  return record({{"file", file}, {"up", true}});
}

std::string pointer_record(std::string_view pointer) {
  return record({{"pointer", std::string(pointer)}});
}

std::string records_of(const QueueEntry& entry) {
  OrderedJson files = OrderedJson::array();
  for (const QueuedFile& file : entry.files)
    files.push_back(OrderedJson::array({file.path, file.bytes}));
  std::string text = record({{"version", kQueueVersion},
                             {"name", entry.name},
                             {"of", entry.version},
                             {"order", entry.order},
                             {"files", files},
                             {"pointers", entry.pointers}});
  for (std::size_t i = 0; i < entry.files.size(); ++i) {
    const QueuedFile& file = entry.files[i];
    if (file.is_up) text += up_record(i);
    if (file.is_up || file.state.upload_id.empty()) continue;
    text += begin_record(i, file.state);
    for (const auto& [number, part] : file.state.parts) text += part_record(i, number, part);
  }
  return text;
}

QueueEntry parse_records(std::string_view text, std::string_view name) {
  try {
    const std::optional<Json> first = take_record(text);
    if (!first) refuse_queue("its first record is not whole");
    QueueEntry entry = parse_first(*first, name);
    while (const std::optional<Json> next = take_record(text)) apply_record(*next, entry);
    return entry;
  } catch (const std::exception& thrown) {
    if (dynamic_cast<const Error*>(&thrown)) throw;
    refuse_queue(fmt::format("a record has not what it should ({})", thrown.what()));
  }
}

}  // namespace wmtp::s3
