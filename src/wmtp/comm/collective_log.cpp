#include "wmtp/comm/collective_log.h"

#include <fmt/format.h>

namespace wmtp::comm {
namespace {

std::uint64_t fnv1a(std::uint64_t hash, std::string_view text) {
  for (const unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3ull;
  return (hash ^ 0x0a) * 0x100000001b3ull;
}

}  // namespace

std::uint64_t CollectiveLog::start(std::string_view kind, std::int64_t num_elements,
                                   std::string_view dtype, std::string_view label) {
  std::string what = label.empty() ? fmt::format("{} {} {}", kind, num_elements, dtype)
                                   : fmt::format("{} {} {} {}", kind, num_elements, dtype, label);
  const std::lock_guard lock(mutex_);
  hash_ = fnv1a(hash_, what);
  if (recording_ && recorded_.size() < kMaxRecorded) recorded_.push_back(what);
  last_ = {last_.number + 1, std::move(what), false};
  return last_.number;
}

void CollectiveLog::finish(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (number == last_.number) last_.finished = true;
}

LastCollective CollectiveLog::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

std::vector<std::string> CollectiveLog::recorded() const {
  const std::lock_guard lock(mutex_);
  return recorded_;
}

std::uint64_t CollectiveLog::hash() const {
  const std::lock_guard lock(mutex_);
  return hash_;
}

void CollectiveLog::stop_recording() {
  const std::lock_guard lock(mutex_);
  recording_ = false;
  recorded_ = {};
}

}  // namespace wmtp::comm
