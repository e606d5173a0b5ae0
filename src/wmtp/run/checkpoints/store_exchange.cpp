#include "wmtp/run/checkpoints/store_exchange.h"

#include <thread>

#include "wmtp/core/time.h"

namespace wmtp::run {
namespace {

constexpr std::chrono::milliseconds kPause{2};

}  // namespace

void StoreExchange::post(std::string_view key, std::string_view value) {
  store_.set(std::string(key), value);
}

std::optional<std::string> StoreExchange::wait(std::string_view key,
                                               std::chrono::milliseconds timeout) {
  // StopSaveFlags again and again: a blocking get would keep the thread when the run ends.
  const auto begun = Clock::now();
  const std::string name(key);
  while (true) {
    if (auto value = store_.try_get(name, checkpoint::kMaxVoteBytes)) return value;
    if (Clock::now() - begun > timeout) return std::nullopt;
    std::this_thread::sleep_for(kPause);
  }
}

void StoreExchange::forget(std::string_view key) {
  store_.remove(std::string(key));
}

}  // namespace wmtp::run
