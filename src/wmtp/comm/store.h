// The run's key-value store: what ranks know of each other before and beside collectives. A thin
// cover of c10d's stores that limits the length of what is read and turns their errors into Error
// comm. Copies share one connection. THREADS: safe, but a blocking get() holds its connection, so a
// thread that must never wait for another uses its own clone().
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace wmtp::comm {

class Store {
 public:
  using Millis = std::chrono::milliseconds;
  static constexpr std::size_t kMaxValueBytes = std::size_t{1} << 20;

  Store() = default;  // none; only assignment is allowed
  static Store in_process();
  static Store file(
      const std::filesystem::path& folder);  // the folder exists; key file "store" in it
  // BLOCKS until connected and answered, at most `timeout`.
  static Store tcp_client(const std::string& host, int port, Millis timeout);
  // Serves on the listening socket `listen_fd` (taken over), which is bound to host:port.
  static Store tcp_server(const std::string& host, int port, int listen_fd, Millis timeout);

  explicit operator bool() const { return body_ != nullptr; }
  Store prefixed(const std::string& prefix) const;
  Store clone() const;                                  // a connection of its own
  std::optional<std::filesystem::path> folder() const;  // of a file store
  const std::string& prefix() const;                    // all prefixes joined by '/'

  void set(const std::string& key, std::string_view value) const;
  // BLOCKS until the key is there; Error comm after `timeout`, Error data beyond `max_bytes`.
  std::string get(const std::string& key, Millis timeout,
                  std::size_t max_bytes = kMaxValueBytes) const;
  std::optional<std::string> try_get(const std::string& key,
                                     std::size_t max_bytes = kMaxValueBytes) const;
  bool has(const std::string& key) const;
  // The value that stands afterwards: `value`, or what another rank had written before.
  std::string set_if_absent(const std::string& key, std::string_view value) const;
  std::int64_t add(const std::string& key, std::int64_t delta) const;
  // A key that is not there is fine. The file of a file store keeps its bytes, the memory of all
  // processes that have it open is freed when they next ask for something.
  void remove(const std::string& key) const;

  struct Body;  // comm/store_body.h
  const Body& body() const { return *body_; }
  explicit Store(std::shared_ptr<const Body> body) : body_(std::move(body)) {}

 private:
  std::shared_ptr<const Body> body_;
};

// c10d logs every failed connection with a stack trace; our errors say it in a line. Called unless
// the user set TORCH_CPP_LOG_LEVEL.
void silence_c10d_log();

}  // namespace wmtp::comm
