#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/s3/bucket.h"

namespace wmtp::s3 {
namespace {

// S3 gives at most 1000 entries a page; a server that never ends its list is not followed.
constexpr int kMostPages = 10'000;

[[noreturn]] void refuse_endless(std::string_view what) {
  throw Error(ErrorKind::data, "s3", fmt::format("{} does not end or goes in circles", what),
              "is this a server of S3?");
}

}  // namespace

ObjectPage Bucket::list(std::string_view name_prefix, std::string_view delimiter,
                        std::string_view token, int page_size) {
  const Location& location = session_->location();
  const std::string prefix = location.key_of(name_prefix);
  Call call{.method = "GET", .key = {}};
  call.query = {{"list-type", "2"},
                {"encoding-type", "url"},
                {"max-keys", std::to_string(page_size)},
                {"prefix", prefix}};
  if (!delimiter.empty()) call.query.emplace_back("delimiter", delimiter);
  if (!token.empty()) call.query.emplace_back("continuation-token", token);
  ObjectPage page = parse_object_page(send(call).body);
  const auto name_below = [&](const std::string& key) {
    if (!key.starts_with(prefix))
      throw Error(ErrorKind::data, "s3", "a list has a key outside of its prefix",
                  "is this a server of S3?");
    return location.name_of(key);
  };
  for (ObjectEntry& object : page.objects) object.key = name_below(object.key);
  for (std::string& folder : page.prefixes) folder = name_below(folder);
  return page;
}

std::vector<ObjectEntry> Bucket::list_all(std::string_view name_prefix, std::size_t most) {
  std::vector<ObjectEntry> objects;
  std::string token;
  for (int num_pages = 0; num_pages < kMostPages; ++num_pages) {
    ObjectPage page = list(name_prefix, {}, token);
    if (objects.size() + page.objects.size() > most)
      throw Error(
          ErrorKind::data, "s3",
          fmt::format("{} has more than {} objects",
                      session_->location().shown(session_->location().key_of(name_prefix)), most),
          "name a longer prefix");
    objects.insert(objects.end(), std::make_move_iterator(page.objects.begin()),
                   std::make_move_iterator(page.objects.end()));
    if (page.next.empty()) return objects;
    if (page.next == token) break;
    token = page.next;
  }
  refuse_endless("the list of objects");
}

std::optional<std::vector<PartEntry>> Bucket::list_parts(std::string_view name,
                                                         const std::string& upload_id) {
  Call call{.method = "GET", .key = session_->location().key_of(name)};
  std::vector<PartEntry> parts;
  for (int marker = 0;;) {
    call.query = {{"uploadId", upload_id}, {"part-number-marker", std::to_string(marker)}};
    const http::Response response = exchange(call);
    if (response.status == 404 && error_code(response) != "NoSuchBucket") return std::nullopt;
    if (!response.is_success()) throw refusal(response, call);
    const PartPage page = parse_part_page(response.body);
    parts.insert(parts.end(), page.parts.begin(), page.parts.end());
    if (page.next == 0) return parts;
    if (page.next <= marker) refuse_endless("the list of parts");
    marker = page.next;
  }
}

std::vector<UploadEntry> Bucket::list_uploads(std::string_view name_prefix) {
  const Location& location = session_->location();
  Call call{.method = "GET", .key = {}};
  std::vector<UploadEntry> uploads;
  UploadPage page;
  for (int num_pages = 0; num_pages < kMostPages; ++num_pages) {
    call.query = {
        {"uploads", ""}, {"encoding-type", "url"}, {"prefix", location.key_of(name_prefix)}};
    if (!page.next_key.empty()) {
      call.query.emplace_back("key-marker", page.next_key);
      call.query.emplace_back("upload-id-marker", page.next_upload_id);
    }
    const UploadPage before = page;
    page = parse_upload_page(send(call).body);
    for (UploadEntry& upload : page.uploads) {
      // Not every server heeds the prefix here, and other people's uploads are none of ours.
      if (!upload.key.starts_with(location.key_of(name_prefix))) continue;
      upload.key = location.name_of(upload.key);
      uploads.push_back(std::move(upload));
    }
    if (page.next_key.empty()) return uploads;
    if (page.next_key == before.next_key && page.next_upload_id == before.next_upload_id) break;
  }
  refuse_endless("the list of uploads");
}

}  // namespace wmtp::s3
