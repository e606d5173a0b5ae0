// The answers of S3 that are documents.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/s3/xml.h"

namespace wmtp::s3 {

// One page of ListObjectsV2. Keys are decoded.
struct ObjectEntry {
  std::string key;
  std::uint64_t bytes = 0;
  std::string etag;  // without its quotes
  std::optional<std::int64_t> modified;
};
struct ObjectPage {
  std::vector<ObjectEntry> objects;
  std::vector<std::string> prefixes;  // with a delimiter: "folders", with it at their ends
  std::string next;                   // continuation token; empty: this was the last page
};
ObjectPage parse_object_page(std::string_view body);

// One page of ListMultipartUploads.
struct UploadEntry {
  std::string key, upload_id;
  std::optional<std::int64_t> initiated;  // seconds since 1970
};
struct UploadPage {
  std::vector<UploadEntry> uploads;
  std::string next_key, next_upload_id;  // markers; empty: this was the last page
};
UploadPage parse_upload_page(std::string_view body);

// One page of ListParts.
struct PartEntry {
  int number = 0;
  std::uint64_t bytes = 0;
  std::string etag;
};
struct PartPage {
  std::vector<PartEntry> parts;
  int next = 0;  // marker; 0: this was the last page
};
PartPage parse_part_page(std::string_view body);

std::string parse_upload_id(std::string_view body);  // of InitiateMultipartUpload

// An Error document. Nothing: the body is none.
struct ErrorDocument {
  std::string code, message, region;
};
std::optional<ErrorDocument> parse_error(std::string_view body);

// The ETag that CompleteMultipartUpload answers with; "" where it has none. Its body may be an
// Error document with the status 200: see parse_error first.
std::string parse_completion(std::string_view body);

std::string without_quotes(std::string_view etag);

}  // namespace wmtp::s3
