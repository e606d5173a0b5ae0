#include <fmt/format.h>

#include "wmtp/s3/bucket.h"

namespace wmtp::s3 {
namespace {

// The status that an Error document inside of a 200 should have had: that of a fault of the server
// where its code says so, that another try follows; that of a bad request otherwise.
int status_of_code(std::string_view code) {
  if (code == "InternalError" || code == "ServiceUnavailable" || code == "SlowDown") return 503;
  return code == "NoSuchUpload" ? 404 : 400;
}

std::string completion_document(const std::vector<CompletedPart>& parts) {
  std::string text = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (const CompletedPart& part : parts) {
    text += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>&quot;{}&quot;</ETag>", part.number,
                        xml_escaped(part.etag));
    if (!part.crc32c.empty())
      text += fmt::format("<ChecksumCRC32C>{}</ChecksumCRC32C>", part.crc32c);
    text += "</Part>";
  }
  return text + "</CompleteMultipartUpload>";
}

}  // namespace

std::string Bucket::create_upload(std::string_view name) {
  Call call{.method = "POST", .key = session_->location().key_of(name), .query = {{"uploads", ""}}};
  if (session_->options().checksum == Checksum::crc32c)
    call.headers.add("x-amz-checksum-algorithm", "CRC32C");
  return parse_upload_id(send(call).body);
}

std::string Bucket::put_part(std::string_view name, const std::string& upload_id, int number,
                             const Payload& payload) {
  const Call call{.method = "PUT",
                  .key = session_->location().key_of(name),
                  .query = {{"partNumber", std::to_string(number)}, {"uploadId", upload_id}},
                  .payload = payload};
  const http::Response response = send(call);
  std::string etag = without_quotes(response.headers.find("ETag").value_or(""));
  if (etag.empty())
    throw Error(ErrorKind::data, "s3",
                fmt::format("{}: the answer to part {} has no ETag", shown(call), number),
                "is this a server of S3, or a proxy that drops headers?");
  return etag;
}

std::string Bucket::complete_upload(std::string_view name, const std::string& upload_id,
                                    const std::vector<CompletedPart>& parts) {
  const std::string document = completion_document(parts);
  Call call{.method = "POST",
            .key = session_->location().key_of(name),
            .query = {{"uploadId", upload_id}},
            .payload = payload_of(document, Checksum::none)};
  call.headers.add("Content-Type", "application/xml");
  const http::Response response = retried(call, [&] {
    http::Response answer = send_once(call);
    const auto error = answer.is_success() ? parse_error(answer.body) : std::nullopt;
    if (error) answer.status = status_of_code(error->code);
    return answer;
  });
  if (!response.is_success()) throw refusal(response, call);
  return response.body.empty() ? "" : parse_completion(response.body);
}

void Bucket::abort_upload(std::string_view name, const std::string& upload_id) {
  const Call call{.method = "DELETE",
                  .key = session_->location().key_of(name),
                  .query = {{"uploadId", upload_id}}};
  const http::Response response = exchange(call);
  const bool is_gone = response.status == 404 && error_code(response) != "NoSuchBucket";
  if (!response.is_success() && !is_gone) throw refusal(response, call);
}

}  // namespace wmtp::s3
