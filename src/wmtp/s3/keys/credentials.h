// Keys for signing: where they come from, and that they are renewed in time.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/core/time.h"
#include "wmtp/s3/secret.h"

namespace wmtp::s3 {

struct Credentials {
  Secret access_key, secret_key;
  Secret session_token;                      // with temporary keys
  std::optional<Clock::time_point> expires;  // monotonic: a clock that is set does not end them
  std::string source;                        // "the environment", for people

  bool has_same_keys(const Credentials& other) const {
    return access_key == other.access_key && secret_key == other.secret_key &&
           session_token == other.session_token;
  }
};

// One place where keys may be.
class CredentialSource {
 public:
  virtual ~CredentialSource() = default;
  struct Answer {
    std::optional<Credentials> credentials;
    std::string absence;  // where there are none: "AWS_ACCESS_KEY_ID is not set"
  };
  // BLOCKS. No credentials: this place is not set up, ask the next one. One that is set up and
  // does not give any is an Error: other keys than those asked for would be a surprise.
  virtual Answer read() = 0;
};

// The first source that has keys; they are kept, and read again before they expire. THREADS: any.
class CredentialProvider {
 public:
  using Sources = std::vector<std::unique_ptr<CredentialSource>>;
  using Now = std::function<Clock::time_point()>;
  explicit CredentialProvider(Sources sources, Now now = Clock::now);

  // BLOCKS where keys are to be read. Error config with all places that were looked at where there
  // are none. Keys that are still good outlive a renewal that fails, with a warning.
  std::shared_ptr<const Credentials> get();
  // After a server has refused `seen`: reads the keys again, unless another thread has done so
  // meanwhile or this was done just before, and says whether they are others now. Places that
  // fail are a warning: the refusal is what counts.
  bool renew_after_refusal(const Credentials& seen);

 private:
  std::shared_ptr<const Credentials> read_sources();
  bool is_due() const;

  std::mutex mutex_;
  Sources sources_;
  Now now_;
  std::shared_ptr<const Credentials> current_;
  Clock::time_point last_read_{};
  std::optional<Clock::time_point> last_refusal_;
};

}  // namespace wmtp::s3
