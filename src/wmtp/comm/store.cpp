#include "wmtp/comm/store.h"

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "wmtp/comm/store_body.h"
#include "wmtp/core/error.h"
#include "wmtp/core/resource_limits.h"

namespace wmtp::comm {

std::string first_line(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch_error ? torch_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

namespace {

std::vector<std::uint8_t> bytes_of(std::string_view text) {
  return {text.begin(), text.end()};
}
std::string text_of(const std::vector<std::uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

template <class Call>
auto guarded(std::string_view doing, const std::string& key, Call&& call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (auto limit = as_limit_error(error)) throw *std::move(limit);
    throw Error(ErrorKind::comm, "comm",
                fmt::format("the run's store failed to {} '{}': {}", doing, key, first_line(error)),
                "is rank 0 (or torchrun's agent) still there?");
  }
}

std::string limited(const std::string& key, const std::vector<std::uint8_t>& value,
                    std::size_t max_bytes) {
  if (value.size() > max_bytes)
    throw Error(ErrorKind::data, "comm",
                fmt::format("the store's value '{}' has {} bytes, more than the {} expected", key,
                            value.size(), max_bytes),
                "another program writes to this store");
  return text_of(value);
}

Store wrap(c10::intrusive_ptr<c10d::Store> store, std::string prefix = {},
           std::optional<std::filesystem::path> folder = {}, bool serves = false) {
  return Store(std::make_shared<Store::Body>(
      Store::Body{std::move(store), std::move(prefix), std::move(folder), serves}));
}

// A file store is never destroyed: all its end would do is count itself out in the file, for which
// it waits five minutes where the folder is gone, and who removes the folder does not know who is
// still to count. There are a few in a process, and none holds more than the values it has read.
Store kept_for_good(const Store& store) {
  c10::raw::intrusive_ptr::incref(store.body().store.get());
  return store;
}

}  // namespace

void silence_c10d_log() {
  FLAGS_caffe2_log_level = c10::GLOG_FATAL;
}

Store Store::in_process() {
  return wrap(c10::make_intrusive<c10d::HashStore>());
}

Store Store::file(const std::filesystem::path& folder) {
  const std::string path = (folder / "store").string();
  // A negative number of workers: the folder's owner removes the file, not whoever closes it last.
  return guarded("open", path, [&] {
    return kept_for_good(wrap(c10::make_intrusive<c10d::FileStore>(path, -1), {}, folder));
  });
}

Store Store::tcp_client(const std::string& host, int port, Millis timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.waitWorkers = false;
  options.timeout = timeout;
  return guarded("connect to", fmt::format("{}:{}", host, port),
                 [&] { return wrap(c10::make_intrusive<c10d::TCPStore>(host, options)); });
}

Store Store::tcp_server(const std::string& host, int port, int listen_fd, Millis timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.isServer = true;
  options.waitWorkers = false;
  options.timeout = timeout;
  options.masterListenFd = listen_fd;
  return guarded("serve at", fmt::format("{}:{}", host, port), [&] {
    return wrap(c10::make_intrusive<c10d::TCPStore>(host, options), {}, {}, /*serves=*/true);
  });
}

Store Store::prefixed(const std::string& prefix) const {
  const std::string joined = body_->prefix.empty() ? prefix : body_->prefix + "/" + prefix;
  return wrap(c10::make_intrusive<c10d::PrefixStore>(prefix, body_->store), joined, body_->folder,
              body_->serves);
}

Store Store::clone() const {
  return guarded("clone", body_->prefix, [&] {
    const Store copy = wrap(body_->store->clone(), body_->prefix, body_->folder, body_->serves);
    return body_->folder ? kept_for_good(copy) : copy;
  });
}

bool serves(const Store& store) {
  return store.body().serves;
}

Store root_of(const Store& store) {
  const Store::Body& body = store.body();
  auto* below = dynamic_cast<c10d::PrefixStore*>(body.store.get());
  if (!below) return store;
  return wrap(below->getUnderlyingNonPrefixStore(), {}, body.folder, body.serves);
}

std::optional<std::filesystem::path> Store::folder() const {
  return body_->folder;
}
const std::string& Store::prefix() const {
  return body_->prefix;
}

void Store::set(const std::string& key, std::string_view value) const {
  guarded("write", key, [&] { body_->store->set(key, bytes_of(value)); });
}

std::string Store::get(const std::string& key, Millis timeout, std::size_t max_bytes) const {
  return guarded("give", key, [&] {
    body_->store->wait({key}, timeout);
    return limited(key, body_->store->get(key), max_bytes);
  });
}

std::optional<std::string> Store::try_get(const std::string& key, std::size_t max_bytes) const {
  return guarded("give", key, [&]() -> std::optional<std::string> {
    if (!body_->store->check({key})) return std::nullopt;
    return limited(key, body_->store->get(key), max_bytes);
  });
}

bool Store::has(const std::string& key) const {
  return guarded("look for", key, [&] { return body_->store->check({key}); });
}

std::string Store::set_if_absent(const std::string& key, std::string_view value) const {
  return guarded("write", key, [&] {
    return limited(key, body_->store->compareSet(key, std::vector<std::uint8_t>{}, bytes_of(value)),
                   kMaxValueBytes);
  });
}

std::int64_t Store::add(const std::string& key, std::int64_t delta) const {
  return guarded("count", key, [&] { return body_->store->add(key, delta); });
}

void Store::remove(const std::string& key) const {
  guarded("remove", key, [&] { body_->store->deleteKey(key); });
}

}  // namespace wmtp::comm
