#include "wmtp/s3/answers.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "wmtp/s3/iso_time.h"
#include "wmtp/s3/problem.h"

namespace wmtp::s3 {
namespace {

TEST(Answers, APageOfObjects) {
  const ObjectPage page = parse_object_page(
      R"(<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>
      <EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>
      <NextContinuationToken>a+b==</NextContinuationToken>
      <Contents><Key>a+b%2Bc%2F%C3%BC%00</Key><Size>18446744073709551615</Size>
      <ETag>&quot;abc-2&quot;</ETag><LastModified>2026-11-16T10:00:00.000Z</LastModified></Contents>
      <CommonPrefixes><Prefix>d+e/</Prefix></CommonPrefixes></ListBucketResult>)");
  ASSERT_EQ(page.objects.size(), 1u);
  EXPECT_EQ(page.objects[0].key, std::string("a b+c/\u00fc\0", 9).substr(0, 9));
  EXPECT_EQ(page.objects[0].bytes, 18446744073709551615u);
  EXPECT_EQ(page.objects[0].etag, "abc-2");
  EXPECT_EQ(page.objects[0].modified, 1794823200);
  EXPECT_EQ(page.prefixes, std::vector<std::string>{"d e/"});
  EXPECT_EQ(page.next, "a+b==");
}

TEST(Answers, KeysAreTakenAsTheyAreWhereTheServerDoesNotEncodeThem) {
  const ObjectPage page = parse_object_page(
      "<ListBucketResult><Contents><Key>a+b%20</Key><Size>1</Size></Contents></ListBucketResult>");
  EXPECT_EQ(page.objects.at(0).key, "a+b%20");
  EXPECT_EQ(page.next, "");
}

TEST(Answers, PagesWithoutSenseAreRefused) {
  const auto refused = [](std::string_view inside, std::string_view part) {
    EXPECT_WMTP_ERROR(
        parse_object_page(fmt::format("<ListBucketResult>{}</ListBucketResult>", inside)),
        ErrorKind::data, std::string(part));
  };
  refused("<Contents><Size>1</Size></Contents>", "an object without a key");
  refused("<Contents><Key>a</Key><Size>-1</Size></Contents>", "a Size that is no number");
  refused("<Contents><Key>a</Key></Contents>", "a Size that is no number");
  refused("<IsTruncated>true</IsTruncated>", "does not say where");
  EXPECT_WMTP_ERROR(parse_object_page("<html/>"), ErrorKind::data, "is no ListBucketResult");
  EXPECT_WMTP_ERROR(parse_part_page("<ListPartsResult><Part><PartNumber>10001</PartNumber>"
                                    "</Part></ListPartsResult>"),
                    ErrorKind::data, "PartNumber above 10000");
  EXPECT_WMTP_ERROR(parse_upload_id("<InitiateMultipartUploadResult/>"), ErrorKind::data,
                    "has no UploadId");
}

TEST(Answers, UploadsPartsAndCompletion) {
  const UploadPage uploads = parse_upload_page(
      "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker>"
      "<NextUploadIdMarker>u</NextUploadIdMarker><Upload><Key>a</Key><UploadId>b</UploadId>"
      "<Initiated>1970-01-02T00:00:00Z</Initiated></Upload></ListMultipartUploadsResult>");
  EXPECT_EQ(uploads.uploads.at(0).initiated, 86400);
  EXPECT_EQ(uploads.next_key + uploads.next_upload_id, "ku");
  const PartPage parts = parse_part_page(
      "<ListPartsResult><IsTruncated>true</IsTruncated><NextPartNumberMarker>2"
      "</NextPartNumberMarker><Part><PartNumber>2</PartNumber><Size>5</Size><ETag>\"e\"</ETag>"
      "</Part></ListPartsResult>");
  EXPECT_EQ(parts.parts.at(0).number, 2);
  EXPECT_EQ(parts.parts.at(0).etag, "e");
  EXPECT_EQ(parts.next, 2);
  EXPECT_EQ(parse_completion("<CompleteMultipartUploadResult><ETag>\"a-1\"</ETag>"
                             "</CompleteMultipartUploadResult>"),
            "a-1");
  EXPECT_EQ(parse_error("<Error><Code>InternalError</Code></Error>")->code, "InternalError");
  EXPECT_FALSE(parse_error("<html>").has_value());
}

S3Error error_for(int status, std::string_view body, http::Headers headers = {}) {
  return error_of({status, std::move(headers), std::string(body)}, "GET s3://b/k", "us-east-1");
}

TEST(Answers, RefusalsAreTypedAndHaveAHint) {
  const auto document = [](std::string_view code) {
    return fmt::format("<Error><Code>{}</Code><Message>words</Message></Error>", code);
  };
  EXPECT_EQ(error_for(404, document("NoSuchBucket")).problem(), Problem::no_bucket);
  EXPECT_EQ(error_for(404, document("NoSuchUpload")).problem(), Problem::no_upload);
  EXPECT_EQ(error_for(404, "").problem(), Problem::not_found);
  EXPECT_EQ(error_for(403, "").problem(), Problem::denied);
  EXPECT_EQ(error_for(403, document("SignatureDoesNotMatch")).problem(), Problem::bad_keys);
  EXPECT_EQ(error_for(400, document("ExpiredToken")).problem(), Problem::bad_keys);
  EXPECT_EQ(error_for(503, "").problem(), Problem::busy);
  EXPECT_EQ(error_for(503, "").kind(), ErrorKind::comm);
  EXPECT_EQ(error_for(501, document("NotImplemented")).problem(), Problem::refused);
  EXPECT_EQ(error_for(400, document("BadDigest")).kind(), ErrorKind::io);
  EXPECT_EQ(error_for(400, document("Other")).problem(), Problem::refused);
  const std::string text = error_for(403, document("AccessDenied")).what();
  EXPECT_THAT(text,
              testing::HasSubstr("GET s3://b/k: the server answers 403, AccessDenied: words"));
  EXPECT_THAT(text, testing::HasSubstr("s3:PutObject"));
}

TEST(Answers, AWrongRegionIsNamedWithTheRightOne) {
  const S3Error moved = error_for(301, "", {{"x-amz-bucket-region", "eu-west-3"}});
  EXPECT_EQ(moved.problem(), Problem::wrong_region);
  EXPECT_THAT(moved.hint(), testing::HasSubstr("storage.s3.region: eu-west-3"));
  const S3Error malformed = error_for(400,
                                      "<Error><Code>AuthorizationHeaderMalformed</Code>"
                                      "<Region>eu-west-3</Region></Error>");
  EXPECT_EQ(malformed.problem(), Problem::wrong_region);
  EXPECT_EQ(error_for(400, "<Error><Code>AuthorizationHeaderMalformed</Code></Error>").problem(),
            Problem::bad_keys);
}

TEST(Answers, ForeignTextIsEscaped) {
  EXPECT_THAT(error_for(400, "<Error><Code>a</Code><Message>x\u202ey</Message></Error>").what(),
              testing::HasSubstr("\\u202e"));
}

TEST(IsoTime, Times) {
  EXPECT_EQ(parse_iso_time("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(parse_iso_time("2024-02-29T23:59:59.123456Z"), 1709251199);
  for (const char* text :
       {"", "2023-02-29T00:00:00Z", "2024-02-29T24:00:00Z", "2024-02-29 00:00:00Z",
        "2024-02-29T00:00:00", "2024-02-29T00:00:00.Z", "2024-02-29T00:00:00+00:00"})
    EXPECT_EQ(parse_iso_time(text), std::nullopt) << text;
}

}  // namespace
}  // namespace wmtp::s3
