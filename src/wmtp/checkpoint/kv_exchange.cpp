#include "wmtp/checkpoint/kv_exchange.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <thread>

#include "wmtp/core/file.h"
#include "wmtp/core/time.h"
#include "wmtp/storage/file_system.h"
#include "wmtp/storage/open_file.h"

namespace wmtp::checkpoint {
namespace {

std::string file_name(std::string_view key) {
  std::string name(key);
  std::replace(name.begin(), name.end(), '/', '+');
  return name;
}

}  // namespace

void LocalExchange::post(std::string_view key, std::string_view value) {
  {
    std::lock_guard lock(mutex_);
    values_.emplace(key, value);
  }
  posted_.notify_all();
}

std::optional<std::string> LocalExchange::wait(std::string_view key,
                                               std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto there = [&] { return values_.find(key) != values_.end(); };
  if (!posted_.wait_for(lock, timeout, there)) return std::nullopt;
  return values_.find(key)->second;
}

void LocalExchange::forget(std::string_view key) {
  const std::lock_guard lock(mutex_);
  if (const auto at = values_.find(key); at != values_.end()) values_.erase(at);
}

void FileExchange::post(std::string_view key, std::string_view value) {
  const std::filesystem::path path = folder_ / file_name(key);
  const std::filesystem::path draft = folder_ / ("." + file_name(key));
  const UniqueFd file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file) throw storage::FileError(errno, "create", draft);
  while (!value.empty()) {
    const ssize_t done = ::write(file.get(), value.data(), value.size());
    if (done < 0 && errno != EINTR) throw storage::FileError(errno, "write", draft);
    if (done > 0) value.remove_prefix(static_cast<std::size_t>(done));
  }
  if (std::rename(draft.c_str(), path.c_str()) != 0)
    throw storage::FileError(errno, "rename into place", path);
}

std::optional<std::string> FileExchange::wait(std::string_view key,
                                              std::chrono::milliseconds timeout) {
  const std::filesystem::path path = folder_ / file_name(key);
  const auto give_up = Clock::now() + timeout;
  auto pause = std::chrono::microseconds(50);
  while (::access(path.c_str(), R_OK) != 0) {
    if (Clock::now() >= give_up) return std::nullopt;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(5000));
  }
  return read_file(path, kMaxVoteBytes, ErrorKind::comm);
}

void FileExchange::forget(std::string_view key) {
  const std::filesystem::path path = folder_ / file_name(key);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    throw storage::FileError(errno, "remove", path);
}

}  // namespace wmtp::checkpoint
