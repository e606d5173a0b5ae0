// Connections of one session that are lent to threads, so that each call finds an open one.
#pragma once
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "wmtp/s3/bucket.h"

namespace wmtp::s3 {

// THREADS: any.
class Connections {
 public:
  explicit Connections(std::shared_ptr<Session> session) : session_(std::move(session)) {}

  // One that nobody else has, until `work` returns; its result. As many exist as were ever in use
  // at once.
  template <class Work>
  auto with(Work&& work) {
    Loan loan(*this);
    return work(*loan.bucket);
  }
  const Session& session() const { return *session_; }

 private:
  struct Loan {
    explicit Loan(Connections& owner) : from(owner), bucket(owner.take()) {}
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    ~Loan() { from.put_back(std::move(bucket)); }
    Connections& from;
    std::unique_ptr<Bucket> bucket;
  };

  std::unique_ptr<Bucket> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      auto made = std::make_unique<Bucket>(session_);
      idle_.reserve(++num_made_);  // so that putting back never fails
      return made;
    }
    auto bucket = std::move(idle_.back());
    idle_.pop_back();
    return bucket;
  }
  void put_back(std::unique_ptr<Bucket> bucket) noexcept {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(bucket));
  }

  std::shared_ptr<Session> session_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Bucket>> idle_;
  std::size_t num_made_ = 0;
};

}  // namespace wmtp::s3
