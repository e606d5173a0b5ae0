#include "wmtp/s3/keys/credentials.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"

namespace wmtp::s3 {
namespace {

using namespace std::chrono_literals;

// Keys are renewed so long before they expire; a place that hands out the same ones is not asked
// more often than the pause says.
constexpr std::chrono::seconds kRenewAhead = 300s, kRenewPause = 30s;
// Many requests that are denied do not make as many questions for other keys.
constexpr std::chrono::seconds kRefusalPause = 2s;

}  // namespace

CredentialProvider::CredentialProvider(Sources sources, Now now)
    : sources_(std::move(sources)), now_(std::move(now)) {}

std::shared_ptr<const Credentials> CredentialProvider::get() {
  const std::lock_guard lock(mutex_);
  if (current_ && !is_due()) return current_;
  const bool is_good = current_ && now_() < *current_->expires;
  try {
    current_ = read_sources();
  } catch (const Error& error) {
    if (!is_good) throw;
    log::warn("s3", "the keys from {} could not be renewed, they end in {}: {}", current_->source,
              format_duration(std::chrono::duration<double>(*current_->expires - now_()).count()),
              error.what());
  }
  return current_;
}

bool CredentialProvider::renew_after_refusal(const Credentials& seen) {
  const std::lock_guard lock(mutex_);
  if (current_ && !current_->has_same_keys(seen)) return true;
  if (last_refusal_ && now_() < *last_refusal_ + kRefusalPause) return false;
  last_refusal_ = now_();
  try {
    current_ = read_sources();
  } catch (const Error& error) {
    log::warn("s3", "the server refuses the keys from {}, and there are no others: {}", seen.source,
              error.what());
    return false;
  }
  return !current_->has_same_keys(seen);
}

bool CredentialProvider::is_due() const {
  if (!current_->expires) return false;
  const Clock::time_point now = now_();
  if (now >= *current_->expires) return true;
  return now + kRenewAhead >= *current_->expires && now >= last_read_ + kRenewPause;
}

std::shared_ptr<const Credentials> CredentialProvider::read_sources() {
  last_read_ = now_();
  std::string absences;
  for (const auto& source : sources_) {
    CredentialSource::Answer answer = source->read();
    if (!answer.credentials) {
      absences += (absences.empty() ? "" : "; ") + answer.absence;
      continue;
    }
    if (answer.credentials->expires && *answer.credentials->expires <= now_())
      throw Error(ErrorKind::config, "s3",
                  fmt::format("the keys from {} have expired already", answer.credentials->source),
                  "is the clock of this machine right?");
    log::debug("s3", "keys from {}", answer.credentials->source);
    return std::make_shared<const Credentials>(std::move(*answer.credentials));
  }
  throw Error(ErrorKind::config, "s3", fmt::format("no credentials for S3: {}", absences),
              "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE");
}

}  // namespace wmtp::s3
