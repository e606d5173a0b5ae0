#include "wmtp/http/client.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <thread>

#include "wmtp/core/time.h"
#include "wmtp/http/curl_api.h"
#include "wmtp/http/curl_failure.h"
#include "wmtp/http/transfer.h"
#include "wmtp/http/user_agent.h"

namespace wmtp::http {
namespace {

using namespace std::chrono_literals;

// Time limits and the flag of cancellation are looked at this often.
constexpr int kPollMs = 50;
constexpr std::chrono::milliseconds kIdlePause = 10ms;
constexpr long kBufferBytes = 256L * 1024;
constexpr long kNoConnectLimitMs = 24L * 3600 * 1000;  // 0 would be libcurl's own limit
constexpr std::array<std::string_view, 6> kOwnHeaders = {
    "Host", "Content-Length", "Transfer-Encoding", "Expect", "Connection", "Range"};

void check_request(const Request& request, const ClientOptions& options) {
  const bool is_word =
      !request.method.empty() &&
      request.method.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == request.method.npos;
  WMTP_CHECK(is_word, "a request without a method");
  const bool has_body = request.source || !request.body.empty();
  WMTP_CHECK(!has_body || (request.method != "GET" && request.method != "HEAD"),
             "a request with a body that cannot have one");
  WMTP_CHECK(
      !request.range || (request.range->length > 0 &&
                         request.range->first + request.range->length > request.range->first),
      "a range without bytes");
  check_url(request.url, "the URL of a request");
  if (!request.url.user_info.empty())
    throw Error(ErrorKind::config, "http",
                fmt::format("{}: the URL has a user name or password in it", shown(request)),
                "URLs end up in logs and process lists: give credentials by the environment");
  for (const auto& [name, value] : request.headers.fields()) {
    for (const std::string_view own : kOwnHeaders)
      WMTP_CHECK(!same_header_name(name, own), fmt::format("the client sets {} itself", own));
    if (is_secret_header(name) && !request.url.is_tls() && !request.url.is_loopback() &&
        !options.allow_plain_credentials)
      throw Error(ErrorKind::config, "http",
                  fmt::format("{}: credentials ({}) would go over the network unencrypted",
                              shown(request), name),
                  "use https, or allow http where the network is trusted");
  }
}

}  // namespace

struct Client::State {
  using Multi = std::unique_ptr<CURLM, decltype(CurlApi::multi_cleanup)>;
  using Easy = std::unique_ptr<CURL, decltype(CurlApi::easy_cleanup)>;
  using HeaderList = std::unique_ptr<curl_slist, decltype(CurlApi::slist_free_all)>;

  explicit State(ClientOptions given) : options(std::move(given)) {}

  void open();
  Response send(const Request& request);
  HeaderList make_headers(const Request& request) const;
  void set_options(const Request& request, Transfer& transfer, curl_slist* headers);
  void set_method(const Request& request, const Transfer& transfer) const;
  void set_tls();
  CURLcode perform(const Request& request, const Transfer& transfer);
  void check_limits(const Request& request, Clock::time_point start,
                    Clock::time_point last_move) const;
  CurlOutcome outcome(CURLcode code) const;
  void check_multi(CURLMcode code) const;

  // An option that every supported libcurl has; `prefer` is for younger ones.
  template <class Value>
  void set(CURLoption option, Value value) const {
    const CURLcode code = api->easy_setopt(easy.get(), option, value);
    WMTP_CHECK(code == CURLE_OK, fmt::format("libcurl refuses its option {}: {}",
                                             static_cast<int>(option), api->easy_strerror(code)));
  }
  template <class Value>
  void prefer(CURLoption option, Value value) const {
    api->easy_setopt(easy.get(), option, value);
  }
  template <class Value>
  Value info(CURLINFO what) const {
    Value value{};
    api->easy_getinfo(easy.get(), what, &value);
    return value;
  }

  ClientOptions options;
  const CurlApi* api = nullptr;   // nullptr: nothing was sent yet
  Multi multi{nullptr, nullptr};  // holds the kept connections
  Easy easy{nullptr, nullptr};
  std::array<char, CURL_ERROR_SIZE> detail{};
};

Client::Client(ClientOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Client::~Client() = default;
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;

Response Client::send(const Request& request) {
  check_request(request, state_->options);
  return state_->send(request);
}

std::string curl_version() {
  return curl_api().version();
}

void Client::State::open() {
  if (api) return;
  const CurlApi& opened = curl_api();
  multi = Multi(opened.multi_init(), opened.multi_cleanup);
  easy = Easy(opened.easy_init(), opened.easy_cleanup);
  if (!multi || !easy) throw std::bad_alloc();
  api = &opened;
}

Response Client::State::send(const Request& request) {
  if (request.cancelled && *request.cancelled)
    throw Failure(FailureKind::cancelled, shown(request) + ": cancelled before it was sent");
  open();
  Transfer transfer(request);
  const HeaderList headers = make_headers(request);
  set_options(request, transfer, headers.get());
  check_multi(api->multi_add_handle(multi.get(), easy.get()));
  // Taken out whatever happens: the next request reuses the handle. A transfer that is not over
  // takes its connection with it.
  struct Membership {
    State& state;
    ~Membership() { state.api->multi_remove_handle(state.multi.get(), state.easy.get()); }
  } membership{*this};
  const CURLcode code = perform(request, transfer);
  transfer.rethrow();
  if (code != CURLE_OK) throw failure_of(outcome(code), request, options);
  return transfer.finish();
}

Client::State::HeaderList Client::State::make_headers(const Request& request) const {
  HeaderList list(nullptr, api->slist_free_all);
  const auto append = [&](const std::string& line) {
    curl_slist* longer = api->slist_append(list.get(), line.c_str());
    if (!longer) throw std::bad_alloc();
    if (!list) list.reset(longer);  // later on it is the same
  };
  // libcurl would wait a second for a 100 Continue that many servers do not send.
  append("Expect:");
  for (const auto& [name, value] : request.headers.fields())
    append(value.empty() ? name + ";" : fmt::format("{}: {}", name, value));  // "name:" removes it
  if (request.range)
    append(fmt::format("Range: bytes={}-{}", request.range->first,
                       request.range->first + request.range->length - 1));
  return list;
}

void Client::State::set_options(const Request& request, Transfer& transfer, curl_slist* headers) {
  api->easy_reset(easy.get());
  detail[0] = '\0';
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_ERRORBUFFER, detail.data());
  set(CURLOPT_URL, request.url.text().c_str());
  set(CURLOPT_PATH_AS_IS, 1L);  // "/a/../b" is a key of S3, and was signed
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_USERAGENT, kUserAgent);
  set(CURLOPT_HTTPHEADER, headers);
  set(CURLOPT_BUFFERSIZE, kBufferBytes);
  const auto connect_ms = static_cast<long>(options.connect_limit.count());
  set(CURLOPT_CONNECTTIMEOUT_MS, connect_ms > 0 ? connect_ms : kNoConnectLimitMs);
  set(CURLOPT_HEADERFUNCTION, &Transfer::take_head);
  set(CURLOPT_HEADERDATA, &transfer);
  set(CURLOPT_WRITEFUNCTION, &Transfer::take_body);
  set(CURLOPT_WRITEDATA, &transfer);
  prefer(CURLOPT_PROTOCOLS_STR, "http,https");      // 7.85
  prefer(CURLOPT_HTTP09_ALLOWED, 0L);               // 7.64; the default since 7.66
  prefer(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);     // 7.54: a proxy's head is not the answer's
  prefer(CURLOPT_UPLOAD_BUFFERSIZE, kBufferBytes);  // 7.62
  prefer(CURLOPT_QUICK_EXIT, 1L);  // 7.87: a cancelled request does not wait for the name service
  set_method(request, transfer);
  if (request.url.is_tls()) set_tls();
}

void Client::State::set_method(const Request& request, const Transfer& transfer) const {
  if (request.method == "GET") {
    set(CURLOPT_HTTPGET, 1L);
  } else if (request.method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
  } else {
    // Not CURLOPT_POST, which would add a Content-Type that nobody asked for.
    if (request.method != "DELETE" || transfer.upload_bytes() > 0) {
      set(CURLOPT_UPLOAD, 1L);
      set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(transfer.upload_bytes()));
      set(CURLOPT_READFUNCTION, &Transfer::give_body);
      set(CURLOPT_READDATA, &transfer);
      set(CURLOPT_SEEKFUNCTION, &Transfer::seek_body);
      set(CURLOPT_SEEKDATA, &transfer);
    }
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

void Client::State::set_tls() {
  set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  set(CURLOPT_SSL_VERIFYPEER, options.verify_tls ? 1L : 0L);
  set(CURLOPT_SSL_VERIFYHOST, options.verify_tls ? 2L : 0L);
  if (!options.verify_tls) return;
  if (options.ca_file.empty()) options.ca_file = find_ca_bundle(options.env);
  set(CURLOPT_CAINFO, options.ca_file.c_str());
  // Otherwise the folder that libcurl was built for would be trusted besides.
  prefer(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
}

CURLcode Client::State::perform(const Request& request, const Transfer& transfer) {
  const Clock::time_point start = Clock::now();
  Clock::time_point last_move = start;
  std::uint64_t num_moved = 0;
  bool was_idle = false;
  for (;;) {
    int num_running = 0, num_messages = 0, num_events = 0;
    check_multi(api->multi_perform(multi.get(), &num_running));
    while (const CURLMsg* message = api->multi_info_read(multi.get(), &num_messages))
      if (message->msg == CURLMSG_DONE) return message->data.result;
    const bool is_connected = info<double>(CURLINFO_PRETRANSFER_TIME) > 0;
    const bool has_moved = transfer.num_moved() != num_moved;
    if (!is_connected || has_moved) {
      num_moved = transfer.num_moved();
      last_move = Clock::now();
    }
    check_limits(request, start, last_move);
    // Of TLS a pass takes one record of 16 KiB: where one came, the next is often there already.
    if (is_connected && has_moved) continue;
    check_multi(api->multi_wait(multi.get(), nullptr, 0, kPollMs, &num_events));
    // Without a socket to wait for (a name is being looked up) it returns at once.
    if (num_events == 0 && was_idle) std::this_thread::sleep_for(kIdlePause);
    was_idle = num_events == 0;
  }
}

void Client::State::check_limits(const Request& request, Clock::time_point start,
                                 Clock::time_point last_move) const {
  if (request.cancelled && *request.cancelled)
    throw Failure(FailureKind::cancelled, fmt::format("{}: cancelled after {}", shown(request),
                                                      format_duration(seconds_since(start))));
  const auto passed = [](Clock::time_point since, std::chrono::milliseconds limit) {
    return limit > 0ms && Clock::now() - since > limit;
  };
  if (passed(start, options.total_limit))
    throw Failure(FailureKind::timeout,
                  fmt::format("{}: not over after {}, its limit", shown(request),
                              format_duration(seconds_since(start))),
                  "is the server or the network slow?");
  if (passed(last_move, options.stall_limit))
    throw Failure(FailureKind::timeout,
                  fmt::format("{}: not a byte came or went for {}", shown(request),
                              format_duration(seconds_since(last_move))),
                  "is the server stuck, or the network gone?");
}

CurlOutcome Client::State::outcome(CURLcode code) const {
  return {.code = code,
          .os_error = static_cast<int>(info<long>(CURLINFO_OS_ERRNO)),
          .verify_result = info<long>(CURLINFO_SSL_VERIFYRESULT),
          .connect_status = info<long>(CURLINFO_HTTP_CONNECTCODE),
          .detail = detail.data(),
          .code_text = api->easy_strerror(code)};
}

void Client::State::check_multi(CURLMcode code) const {
  WMTP_CHECK(code == CURLM_OK, fmt::format("libcurl: {}", api->multi_strerror(code)));
}

void require_libcurl() {
  curl_api();
}

}  // namespace wmtp::http
