#include "wmtp/s3/answers.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/http/headers.h"
#include "wmtp/http/url.h"
#include "wmtp/s3/iso_time.h"

namespace wmtp::s3 {
namespace {

constexpr int kMostParts = 10'000;

[[noreturn]] void refuse_answer(std::string_view what, std::string_view fact) {
  throw Error(ErrorKind::data, "s3", fmt::format("the answer to {} {}", what, fact),
              "is this a server of S3?");
}

XmlElement parse_root(std::string_view body, std::string_view what, std::string_view root_name) {
  XmlElement root = parse_xml(body, what);
  if (root.name != root_name) refuse_answer(what, fmt::format("is no {}", root_name));
  return root;
}

std::uint64_t number_in(const XmlElement& element, std::string_view child, std::string_view what) {
  const auto number = http::parse_decimal(element.text_of(child));
  if (!number) refuse_answer(what, fmt::format("has a {} that is no number", child));
  return *number;
}

int part_number_in(const XmlElement& element, std::string_view child, std::string_view what) {
  const std::uint64_t number = number_in(element, child, what);
  if (number > kMostParts) refuse_answer(what, fmt::format("has a {} above 10000", child));
  return static_cast<int>(number);
}

bool is_truncated(const XmlElement& root) {
  return root.text_of("IsTruncated") == "true";
}

// Keys come percent-encoded where the server says so: XML has no way to write most control
// characters. AWS writes a blank as "+" there, and a plus always as %2B.
class KeyDecoder {
 public:
  KeyDecoder(const XmlElement& root, std::string_view what)
      : is_encoded_(root.text_of("EncodingType") == "url"), what_(what) {}
  std::string operator()(std::string key) const {
    if (!is_encoded_) return key;
    std::ranges::replace(key, '+', ' ');
    return http::percent_decode(key, what_);
  }

 private:
  bool is_encoded_;
  std::string_view what_;
};

}  // namespace

std::string without_quotes(std::string_view etag) {
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"')
    etag = etag.substr(1, etag.size() - 2);
  return std::string(etag);
}

ObjectPage parse_object_page(std::string_view body) {
  constexpr std::string_view kWhat = "ListObjectsV2";
  const XmlElement root = parse_root(body, kWhat, "ListBucketResult");
  const KeyDecoder decoded(root, kWhat);
  ObjectPage page;
  for (const XmlElement& child : root.children) {
    if (child.name == "CommonPrefixes") page.prefixes.push_back(decoded(child.text_of("Prefix")));
    if (child.name != "Contents") continue;
    ObjectEntry& entry = page.objects.emplace_back();
    entry.key = decoded(child.text_of("Key"));
    if (entry.key.empty()) refuse_answer(kWhat, "has an object without a key");
    entry.bytes = number_in(child, "Size", kWhat);
    entry.etag = without_quotes(child.text_of("ETag"));
    entry.modified = parse_iso_time(child.text_of("LastModified"));
  }
  page.next = root.text_of("NextContinuationToken");
  if (!is_truncated(root)) page.next.clear();
  if (is_truncated(root) && page.next.empty())
    refuse_answer(kWhat, "goes on and does not say where (NextContinuationToken)");
  return page;
}

UploadPage parse_upload_page(std::string_view body) {
  constexpr std::string_view kWhat = "ListMultipartUploads";
  const XmlElement root = parse_root(body, kWhat, "ListMultipartUploadsResult");
  const KeyDecoder decoded(root, kWhat);
  UploadPage page;
  for (const XmlElement& child : root.children) {
    if (child.name != "Upload") continue;
    page.uploads.push_back({decoded(child.text_of("Key")), child.text_of("UploadId"),
                            parse_iso_time(child.text_of("Initiated"))});
    if (page.uploads.back().key.empty() || page.uploads.back().upload_id.empty())
      refuse_answer(kWhat, "has an upload without a key or an id");
  }
  if (!is_truncated(root)) return page;
  page.next_key = decoded(root.text_of("NextKeyMarker"));
  page.next_upload_id = root.text_of("NextUploadIdMarker");
  if (page.next_key.empty()) refuse_answer(kWhat, "goes on and does not say where (NextKeyMarker)");
  return page;
}

PartPage parse_part_page(std::string_view body) {
  constexpr std::string_view kWhat = "ListParts";
  const XmlElement root = parse_root(body, kWhat, "ListPartsResult");
  PartPage page;
  for (const XmlElement& child : root.children) {
    if (child.name != "Part") continue;
    page.parts.push_back({part_number_in(child, "PartNumber", kWhat),
                          number_in(child, "Size", kWhat), without_quotes(child.text_of("ETag"))});
  }
  if (is_truncated(root)) page.next = part_number_in(root, "NextPartNumberMarker", kWhat);
  return page;
}

std::string parse_upload_id(std::string_view body) {
  constexpr std::string_view kWhat = "CreateMultipartUpload";
  std::string id = parse_root(body, kWhat, "InitiateMultipartUploadResult").text_of("UploadId");
  if (id.empty()) refuse_answer(kWhat, "has no UploadId");
  return id;
}

std::optional<ErrorDocument> parse_error(std::string_view body) {
  XmlElement root;
  try {
    root = parse_xml(body, "an error");
  } catch (const Error&) {
    return std::nullopt;
  }
  if (root.name != "Error") return std::nullopt;
  return ErrorDocument{root.text_of("Code"), root.text_of("Message"), root.text_of("Region")};
}

std::string parse_completion(std::string_view body) {
  const XmlElement root =
      parse_root(body, "CompleteMultipartUpload", "CompleteMultipartUploadResult");
  return without_quotes(root.text_of("ETag"));
}

}  // namespace wmtp::s3
