// What a code of libcurl means to people.
#pragma once
#include <string_view>

#include "wmtp/http/client.h"
#include "wmtp/http/curl_api.h"

namespace wmtp::http {

// What libcurl says of a transfer that failed. `detail` is its own message: searched, never shown,
// since nothing keeps secrets out of it.
struct CurlOutcome {
  CURLcode code = CURLE_OK;
  int os_error = 0;         // errno of the last system call that failed
  long verify_result = 0;   // X509_V_ERR_... of OpenSSL
  long connect_status = 0;  // what a proxy answered to CONNECT
  std::string_view detail;
  std::string_view code_text;  // of curl_easy_strerror, a constant text
};

Failure failure_of(const CurlOutcome& outcome, const Request& request,
                   const ClientOptions& options);

}  // namespace wmtp::http
