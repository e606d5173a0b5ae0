#include "wmtp/http/curl_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string_view>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/core/printable.h"

namespace wmtp::http {
namespace {

constexpr std::string_view kInstallHint =
    "install libcurl: apt-get install libcurl4 (Debian, Ubuntu; libcurl4t64 on newer ones, "
    "libcurl4-openssl-dev brings it too), dnf install libcurl (RHEL), zypper install libcurl4 "
    "(SUSE)";

class CurlSymbols {
 public:
  explicit CurlSymbols(const char* library)
      : library_(library), handle_(::dlopen(library, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_) return;
    const char* why = ::dlerror();
    throw Error(ErrorKind::config, "http",
                fmt::format("cannot load {}, which sends requests to servers: {}", library,
                            printable(why ? why : "unknown reason")),
                kInstallHint);
  }

  // The library stays open for the life of the process: OpenSSL below it cannot be unloaded safely.
  template <class Function>
  void bind(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(::dlsym(handle_, name));
    if (!function)
      throw Error(ErrorKind::config, "http", fmt::format("{} has no {}", library_, name),
                  kInstallHint);
  }

 private:
  const char* library_;
  void* handle_;
};

CurlApi open_initialised() {
  CurlApi api = open_curl(kCurlLibrary);
  if (const CURLcode code = api.global_init(CURL_GLOBAL_DEFAULT); code != CURLE_OK)
    throw Error(ErrorKind::config, "http",
                fmt::format("cannot initialise {}: {}", kCurlLibrary, api.easy_strerror(code)),
                kInstallHint);
  log::debug("http", "opened {}", api.version());
  return api;
}

}  // namespace

CurlApi open_curl(const char* library) {
  const CurlSymbols symbols(library);
  CurlApi api;
  symbols.bind(api.global_init, "curl_global_init");
  symbols.bind(api.easy_init, "curl_easy_init");
  symbols.bind(api.easy_cleanup, "curl_easy_cleanup");
  symbols.bind(api.easy_reset, "curl_easy_reset");
  symbols.bind(api.easy_setopt, "curl_easy_setopt");
  symbols.bind(api.easy_getinfo, "curl_easy_getinfo");
  symbols.bind(api.easy_strerror, "curl_easy_strerror");
  symbols.bind(api.multi_init, "curl_multi_init");
  symbols.bind(api.multi_cleanup, "curl_multi_cleanup");
  symbols.bind(api.multi_add_handle, "curl_multi_add_handle");
  symbols.bind(api.multi_remove_handle, "curl_multi_remove_handle");
  symbols.bind(api.multi_perform, "curl_multi_perform");
  symbols.bind(api.multi_wait, "curl_multi_wait");
  symbols.bind(api.multi_info_read, "curl_multi_info_read");
  symbols.bind(api.multi_strerror, "curl_multi_strerror");
  symbols.bind(api.slist_append, "curl_slist_append");
  symbols.bind(api.slist_free_all, "curl_slist_free_all");
  symbols.bind(api.version, "curl_version");
  return api;
}

const CurlApi& curl_api() {
  static const CurlApi api = open_initialised();  // tried again where it threw
  return api;
}

}  // namespace wmtp::http
