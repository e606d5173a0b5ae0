// Requests and responses.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "wmtp/http/headers.h"
#include "wmtp/http/url.h"

namespace wmtp::http {

inline constexpr std::uint64_t kMaxBodyBytes = 16 << 20;

// A request's body that is read piece by piece. What it throws ends the request and reaches the
// caller of Client::send.
class BodySource {
 public:
  virtual ~BodySource() = default;
  virtual std::uint64_t size() const = 0;  // the same for as long as the request lasts
  // Fills the front of `out` and says how many bytes these are; 0 only at the end.
  virtual std::size_t read(std::span<std::byte> out) = 0;
  // Back to the first byte. Called at the begin of each try, and when a kept connection turns out
  // to be dead.
  virtual void rewind() = 0;
};

// Where the body of a 2xx answer goes instead of Response::body. Bodies of other answers are
// messages and stay in the Response. What it throws ends the request and reaches the caller.
class BodySink {
 public:
  virtual ~BodySink() = default;
  virtual void begin(int status, const Headers& headers) = 0;  // anew with each try
  virtual void write(std::span<const std::byte> bytes) = 0;
};

// `length` bytes from `first` on. REQUIRES length > 0 and that the server has all of them.
struct ByteRange {
  std::uint64_t first = 0, length = 0;
};

struct Request {
  std::string method = "GET";
  Url url;
  Headers headers;
  std::string body;                // where there is no source
  BodySource* source = nullptr;    // BORROWS during send
  std::optional<ByteRange> range;  // answered by a 206 of exactly these bytes, else a Failure
  BodySink* sink = nullptr;        // BORROWS during send
  std::uint64_t max_body_bytes = kMaxBodyBytes;  // of Response::body; beyond: too_large
  const std::atomic<bool>* cancelled = nullptr;  // BORROWS; set by any thread: within 0.2 s
};

struct Response {
  int status = 0;
  Headers headers;
  std::string body;

  bool is_success() const { return status >= 200 && status < 300; }
};

// "PUT https://host/path", for messages.
std::string shown(const Request& request);

}  // namespace wmtp::http
