// The published vectors: AWS's test suite of signature version 4, and the examples of S3's
// documentation. tests/parity/test_s3_signing.py has botocore as the oracle.
#include "wmtp/s3/sigv4.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "wmtp/s3/digest.h"

namespace wmtp::s3 {
namespace {

constexpr std::int64_t kSuiteTime = 1440938160;  // 20150830T123600Z
constexpr std::int64_t kS3Time = 1369353600;     // 20130524T000000Z
const std::string kEmptyHash = sha256_hex("");

Credentials suite_keys(std::string_view token = {}) {
  return {.access_key = Secret("AKIDEXAMPLE"),
          .secret_key = Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
          .session_token = Secret(token),
          .expires = std::nullopt,
          .source = "the suite"};
}
Credentials s3_keys() {
  return {.access_key = Secret("AKIAIOSFODNN7EXAMPLE"),
          .secret_key = Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
          .session_token = Secret(),
          .expires = std::nullopt,
          .source = "the documentation"};
}

struct Vector {
  std::string name, method, path, query;
  std::vector<std::pair<std::string, std::string>> headers;  // beside Host and X-Amz-Date
  std::string body, signature;
};

std::string suite_signature(const Vector& vector) {
  SigningInput input{vector.method, vector.path, vector.query, vector.headers,
                     sha256_hex(vector.body)};
  input.headers.emplace_back("Host", "example.amazonaws.com");
  input.headers.emplace_back("X-Amz-Date", "20150830T123600Z");
  return compute_signature(input, suite_keys(), {"us-east-1", "service"}, kSuiteTime).hex;
}

TEST(Sigv4, TheVectorsOfTheTestSuite) {
  const std::vector<Vector> vectors = {
      {"get-vanilla",
       "GET",
       "/",
       "",
       {},
       "",
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"post-vanilla",
       "POST",
       "/",
       "",
       {},
       "",
       "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
      {"get-utf8",
       "GET",
       http::percent_encode("/\u1234", http::Slash::kept),
       "",
       {},
       "",
       "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
      {"get-unreserved",
       "GET",
       "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
       "",
       {},
       "",
       "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
      {"get-vanilla-query-order-key-case",
       "GET",
       "/",
       http::query_text({{"Param2", "value2"}, {"Param1", "value1"}}),
       {},
       "",
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
      {"get-vanilla-utf8-query",
       "GET",
       "/",
       http::query_text({{"\u1234", "bar"}}),
       {},
       "",
       "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
      {"get-header-key-duplicate",
       "GET",
       "/",
       "",
       {{"My-Header1", "value2"}, {"My-Header1", "value2"}, {"My-Header1", "value1"}},
       "",
       "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"},
      {"get-header-value-order",
       "GET",
       "/",
       "",
       {{"My-Header1", "value4"},
        {"My-Header1", "value1"},
        {"My-Header1", "value3"},
        {"My-Header1", "value2"}},
       "",
       "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01"},
      {"get-header-value-trim",
       "GET",
       "/",
       "",
       {{"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}},
       "",
       "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
      {"post-header-key-sort",
       "POST",
       "/",
       "",
       {{"My-Header1", "value1"}},
       "",
       "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
      {"post-x-www-form-urlencoded",
       "POST",
       "/",
       "",
       {{"Content-Type", "application/x-www-form-urlencoded"}},
       "Param1=value1",
       "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
  };
  for (const Vector& vector : vectors)
    EXPECT_EQ(suite_signature(vector), vector.signature) << vector.name;
}

TEST(Sigv4, TheStepsOfGetVanilla) {
  const SigningInput input{"GET",
                           "/",
                           "",
                           {{"Host", "example.amazonaws.com"}, {"X-Amz-Date", "20150830T123600Z"}},
                           kEmptyHash};
  const Signature made =
      compute_signature(input, suite_keys(), {"us-east-1", "service"}, kSuiteTime);
  EXPECT_EQ(made.canonical_request,
            "GET\n/\n\nhost:example.amazonaws.com\nx-amz-date:20150830T123600Z\n\n"
            "host;x-amz-date\n" +
                kEmptyHash);
  EXPECT_EQ(made.string_to_sign,
            "AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/service/aws4_request\n"
            "bb579772317eb040ac9ed261061d46c1f17a8133879d6129b6e1c25292927e63");
}

http::Request s3_request(std::string method, std::string_view target) {
  http::Request request;
  request.method = std::move(method);
  request.url =
      http::parse_url(fmt::format("https://examplebucket.s3.amazonaws.com{}", target), "the URL");
  return request;
}

std::string s3_authorization(http::Request request, std::string_view body = {}) {
  sign(request, s3_keys(), {"us-east-1"}, sha256_hex(body), kS3Time);
  return request.headers.find("Authorization").value_or("");
}

TEST(Sigv4, TheExamplesOfTheDocumentationOfS3) {
  // Range is an own header of the client and not signed here, so this one is computed by hand.
  SigningInput range{"GET",
                     "/test.txt",
                     "",
                     {{"Host", "examplebucket.s3.amazonaws.com"},
                      {"Range", "bytes=0-9"},
                      {"x-amz-content-sha256", kEmptyHash},
                      {"x-amz-date", "20130524T000000Z"}},
                     kEmptyHash};
  EXPECT_EQ(compute_signature(range, s3_keys(), {"us-east-1"}, kS3Time).hex,
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");

  http::Request put = s3_request("PUT", "/test%24file.text");
  put.headers.add("Date", "Fri, 24 May 2013 00:00:00 GMT");
  put.headers.add("x-amz-storage-class", "REDUCED_REDUNDANCY");
  EXPECT_EQ(s3_authorization(put, "Welcome to Amazon S3."),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class, "
            "Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");

  http::Request lifecycle = s3_request("GET", "/");
  lifecycle.url.query = http::query_text({{"lifecycle", ""}});
  EXPECT_THAT(
      s3_authorization(lifecycle),
      testing::HasSubstr("SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature="
                         "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
  http::Request list = s3_request("GET", "/");
  list.url.query = http::query_text({{"prefix", "J"}, {"max-keys", "2"}});
  EXPECT_THAT(
      s3_authorization(list),
      testing::HasSubstr("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

TEST(Sigv4, ATokenIsSentAndSigned) {
  http::Request request = s3_request("GET", "/key");
  sign(request, suite_keys("token=="), {"us-east-1"}, kEmptyHash, kS3Time);
  EXPECT_EQ(request.headers.find("X-Amz-Security-Token"), "token==");
  EXPECT_THAT(*request.headers.find("Authorization"), testing::HasSubstr("x-amz-security-token,"));
}

TEST(Sigv4, SigningAgainReplacesWhatWasSigned) {
  http::Request once = s3_request("GET", "/key"), twice = once;
  sign(once, s3_keys(), {"us-east-1"}, kEmptyHash, kS3Time);
  sign(twice, suite_keys("token"), {"eu-west-1"}, kEmptyHash, kS3Time + 5);
  sign(twice, s3_keys(), {"us-east-1"}, kEmptyHash, kS3Time);
  EXPECT_EQ(once.headers.find("Authorization"), twice.headers.find("Authorization"));
  EXPECT_FALSE(twice.headers.has("X-Amz-Security-Token"));
}

TEST(Sigv4, AnUnsignedPayloadNeedsTls) {
  http::Request request = s3_request("PUT", "/key");
  sign(request, s3_keys(), {"us-east-1"}, kUnsignedPayload, kS3Time);
  EXPECT_EQ(request.headers.find("X-Amz-Content-SHA256"), "UNSIGNED-PAYLOAD");
  request.url = http::parse_url("http://127.0.0.1:9000/bucket/key", "the URL");
  EXPECT_WMTP_ERROR(sign(request, s3_keys(), {"us-east-1"}, kUnsignedPayload, kS3Time),
                    ErrorKind::internal, "unsigned payload without TLS");
}

TEST(Sigv4, AnotherPortThanTheUsualOneIsSigned) {
  http::Request plain = s3_request("GET", "/key"), other = plain;
  other.url.port = 8443;
  EXPECT_NE(s3_authorization(plain), s3_authorization(other));
}

TEST(Digest, HmacOfRfc4231) {
  EXPECT_EQ(to_hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(to_hex(hmac_sha256(std::string(131, '\xaa'),
                               "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Digest, Md5AndBase64) {
  EXPECT_EQ(to_hex(md5("")), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(base64(md5("")), "1B2M2Y8AsgTpgAmY7PhCfg==");
  EXPECT_EQ(crc32c_base64(crc32c("123456789")), "4waSgw==");
}

}  // namespace
}  // namespace wmtp::s3
