// libcurl, opened when the first request is made. The program is not linked with it: most commands
// send nothing, and a machine without it runs everything else. Only http/ includes this.
#pragma once
#include <curl/curl.h>

namespace wmtp::http {

// The functions that are used, by their names without "curl_".
struct CurlApi {
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_reset) easy_reset = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_multi_init) multi_init = nullptr;
  decltype(&::curl_multi_cleanup) multi_cleanup = nullptr;
  decltype(&::curl_multi_add_handle) multi_add_handle = nullptr;
  decltype(&::curl_multi_remove_handle) multi_remove_handle = nullptr;
  decltype(&::curl_multi_perform) multi_perform = nullptr;
  decltype(&::curl_multi_wait) multi_wait = nullptr;
  decltype(&::curl_multi_info_read) multi_info_read = nullptr;
  decltype(&::curl_multi_strerror) multi_strerror = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
  decltype(&::curl_version) version = nullptr;
};

inline constexpr const char* kCurlLibrary = "libcurl.so.4";

// Opens `library` and fills the table. Error config where it cannot be opened or lacks a function.
CurlApi open_curl(const char* library);

// The table of kCurlLibrary, opened and initialised by the first call. A call that failed is
// repeated by the next one. THREADS: any.
const CurlApi& curl_api();

}  // namespace wmtp::http
