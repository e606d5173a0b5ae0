// Sends requests through wmtp::http for the Python tests. No LibTorch.
//   stdin: one JSON object per line, stdout: what came of it, per line. Connections are kept from
//   line to line; "options" makes a new client. stderr is the log, at debug level.
// {"method", "url", "headers": [[name, value]], "body", "source": {"bytes", "ends_at"}, "sink":
// true,
//  "range": [first, length], "max_body_bytes", "cancel_after_ms", "retry": {..}, "threads": n,
//  "options": {"connect_ms", "total_ms", "stall_ms", "verify_tls", "ca_file", "allow_plain"}}
#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <thread>

#include "wmtp/core/checksum.h"
#include "wmtp/core/json.h"
#include "wmtp/core/log.h"
#include "wmtp/http/client.h"
#include "wmtp/http/retry.h"

namespace wmtp::http {
namespace {

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

// The bytes 0123456789abcdef over and over; ends too early where it is told to.
class PatternSource : public BodySource {
 public:
  explicit PatternSource(const Json& given)
      : size_(given.at("bytes")), ends_at_(given.value("ends_at", size_)) {}
  std::uint64_t size() const override { return size_; }
  std::size_t read(std::span<std::byte> out) override {
    std::size_t count = 0;
    for (; count < out.size() && at_ < ends_at_; ++count, ++at_)
      out[count] = static_cast<std::byte>("0123456789abcdef"[at_ % 16]);
    return count;
  }
  void rewind() override {
    at_ = 0;
    ++num_rewinds;
  }
  int num_rewinds = 0;

 private:
  std::uint64_t size_, ends_at_, at_ = 0;
};

class HashSink : public BodySink {
 public:
  void begin(int, const Headers&) override {
    ++num_begins;
    bytes.clear();
  }
  void write(std::span<const std::byte> piece) override {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  int num_begins = 0;
  std::string bytes;
};

ClientOptions options_from(const Json& given) {
  ClientOptions options;
  const auto limit = [&](const char* key, std::chrono::milliseconds& value) {
    value = std::chrono::milliseconds(given.value(key, value.count()));
  };
  limit("connect_ms", options.connect_limit);
  limit("total_ms", options.total_limit);
  limit("stall_ms", options.stall_limit);
  options.verify_tls = given.value("verify_tls", true);
  options.ca_file = given.value("ca_file", "");
  options.allow_plain_credentials = given.value("allow_plain", false);
  options.env = environment;
  return options;
}

RetryPolicy policy_from(const Json& given) {
  RetryPolicy policy;
  policy.max_tries = given.value("max_tries", policy.max_tries);
  policy.base = std::chrono::milliseconds(given.value("base_ms", 1));
  policy.deadline = std::chrono::milliseconds(given.value("deadline_ms", 0));
  policy.every_5xx = given.value("every_5xx", false);
  return policy;
}

Request request_from(const Json& job) {
  Request request;
  request.method = job.value("method", "GET");
  request.url = parse_url(job.at("url").get<std::string>(), "url");
  for (const auto& field : job.value("headers", Json::array()))
    request.headers.add(field.at(0).get<std::string>(), field.at(1).get<std::string>());
  request.body = job.value("body", "");
  request.max_body_bytes = job.value("max_body_bytes", kMaxBodyBytes);
  if (job.contains("range")) request.range = ByteRange{job["range"].at(0), job["range"].at(1)};
  return request;
}

// Sets the flag after so many milliseconds, or never.
class Canceller {
 public:
  explicit Canceller(const Json& job) {
    if (job.contains("cancel_after_ms"))
      thread_ = std::jthread([this, ms = job["cancel_after_ms"].get<int>()] {
        std::this_thread::sleep_for(std::chrono::milliseconds(ms));
        flag = true;
      });
  }
  std::atomic<bool> flag = false;

 private:
  std::jthread thread_;
};

Json reply_to(Client& client, const Json& job) {
  Json reply;
  std::optional<PatternSource> source;
  HashSink sink;
  const Clock::time_point start = Clock::now();
  try {
    Request request = request_from(job);
    if (job.contains("source")) request.source = &source.emplace(job["source"]);
    if (job.value("sink", false)) request.sink = &sink;
    Canceller canceller(job);
    request.cancelled = &canceller.flag;
    const Response response = job.contains("retry")
                                  ? send_with_retries(client, request, policy_from(job["retry"]))
                                  : client.send(request);
    reply["status"] = response.status;
    reply["headers"] = response.headers.fields();
    reply["body"] = response.body;
  } catch (const Failure& failure) {
    reply["failure"] = name_of(failure.failure());
    reply["tls"] = name_of(failure.tls_reason());
    reply["code"] = exit_code(failure.kind());
    reply["text"] = failure.what();
  } catch (const Error& error) {
    reply["code"] = exit_code(error.kind());
    reply["text"] = error.what();
  }
  reply["seconds"] = seconds_since(start);
  reply["rewinds"] = source ? source->num_rewinds : 0;
  reply["sink"] = {{"begins", sink.num_begins},
                   {"bytes", sink.bytes.size()},
                   {"sha256", sha256_hex(sink.bytes)}};
  return reply;
}

// The same job in several threads at once, each with a client of its own.
Json replies_of_threads(const Json& job, const ClientOptions& options) {
  std::vector<Json> replies(job["threads"].get<std::size_t>());
  {
    std::vector<std::jthread> threads;
    for (Json& reply : replies)
      threads.emplace_back([&] {
        Client client(options);
        for (int round = 0; round < 5; ++round) reply.push_back(reply_to(client, job));
      });
  }
  return replies;
}

bool has_opened_curl() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("libcurl") != line.npos) return true;
  return false;
}

}  // namespace
}  // namespace wmtp::http

int main() {
  using namespace wmtp;
  log::configure({.level = log::Level::debug});
  std::signal(SIGPIPE, SIG_IGN);
  http::ClientOptions options = http::options_from(Json::object());
  http::Client client(options);
  for (std::string line; std::getline(std::cin, line);) {
    const Json job = Json::parse(line);
    if (job.contains("options")) {
      options = http::options_from(job["options"]);
      client = http::Client(options);
    }
    Json reply = Json::object();
    if (job.contains("threads"))
      reply["threads"] = http::replies_of_threads(job, options);
    else if (job.contains("url"))
      reply = http::reply_to(client, job);
    reply["opened_curl"] = http::has_opened_curl();
    std::cout << reply.dump(-1, ' ', true, Json::error_handler_t::replace) << std::endl;
  }
  return 0;
}
