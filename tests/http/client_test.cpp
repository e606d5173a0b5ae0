// What a client refuses before anything is sent, and where libcurl comes from.
#include "wmtp/http/client.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "wmtp/http/curl_api.h"

namespace wmtp::http {
namespace {

Request request_to(std::string_view url) {
  Request request;
  request.url = parse_url(url, "url");
  return request;
}

TEST(CurlApi, AnAbsentLibraryIsAnErrorWithAPackageToInstall) {
  EXPECT_WMTP_ERROR(open_curl("libwmtp-absent.so.4"), ErrorKind::config,
                    "cannot load libwmtp-absent.so.4");
  EXPECT_WMTP_ERROR(open_curl("libwmtp-absent.so.4"), ErrorKind::config,
                    "apt-get install libcurl4");
}

TEST(CurlApi, ALibraryWithoutAFunctionIsAnErrorThatNamesIt) {
  EXPECT_WMTP_ERROR(open_curl("libc.so.6"), ErrorKind::config, "libc.so.6 has no curl_");
}

TEST(Client, UserInfoIsRefusedAndNotShown) {
  Client client;
  try {
    client.send(request_to("https://user:canary@127.0.0.1:1/path?secret=canary"));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config);
    EXPECT_THAT(error.what(),
                testing::HasSubstr("GET https://127.0.0.1:1/path?...: the URL has a user name"));
    EXPECT_EQ(std::string_view(error.what()).find("canary"), std::string_view::npos);
  }
}

TEST(Client, CredentialsDoNotGoOverPlainHttpToOtherMachines) {
  Request request = request_to("http://192.0.2.1:9/");
  request.headers.add("X-Amz-Security-Token", "canary");
  EXPECT_WMTP_ERROR(Client().send(request), ErrorKind::config,
                    "credentials (X-Amz-Security-Token)");
}

TEST(Client, HeadersThatItSetsItselfAreABugOfTheCaller) {
  for (const char* name :
       {"host", "Content-Length", "Transfer-Encoding", "Expect", "Connection", "Range"}) {
    Request request = request_to("http://127.0.0.1:1/");
    request.headers.add(name, "x");
    EXPECT_WMTP_ERROR(Client().send(request), ErrorKind::internal, "the client sets");
  }
}

TEST(Client, RequestsWithoutSenseAreABugOfTheCaller) {
  Request request = request_to("http://127.0.0.1:1/");
  request.method = "GET /x HTTP/1.1\r\nX: y";
  EXPECT_WMTP_ERROR(Client().send(request), ErrorKind::internal, "without a method");
  request.method = "GET";
  request.body = "x";
  EXPECT_WMTP_ERROR(Client().send(request), ErrorKind::internal, "with a body");
  request.body.clear();
  request.range = ByteRange{5, 0};
  EXPECT_WMTP_ERROR(Client().send(request), ErrorKind::internal, "a range without bytes");
}

TEST(Client, ARequestCancelledBeforeIsNotSent) {
  const std::atomic<bool> cancelled = true;
  Request request = request_to("http://127.0.0.1:1/");
  request.cancelled = &cancelled;
  try {
    Client().send(request);
    ADD_FAILURE();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.failure(), FailureKind::cancelled);
  }
}

TEST(Client, NobodyThereIsAFailureToConnect) {
  try {
    Client().send(request_to("http://127.0.0.1:1/"));  // port 1: tcpmux, which nobody has
    ADD_FAILURE();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.failure(), FailureKind::connect);
    EXPECT_EQ(failure.kind(), ErrorKind::comm);
    EXPECT_THAT(failure.what(), testing::HasSubstr("cannot connect: Connection refused"));
  }
}

}  // namespace
}  // namespace wmtp::http
