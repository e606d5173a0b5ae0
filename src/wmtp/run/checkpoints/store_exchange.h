// The votes of a save over the run's own store, on a connection of their own: the writer thread
// never waits for the training thread, and never calls a collective.
#pragma once
#include "wmtp/checkpoint/kv_exchange.h"
#include "wmtp/comm/store.h"

namespace wmtp::run {

class StoreExchange final : public checkpoint::KvExchange {
 public:
  // `purpose` keeps the votes of saving and of choosing apart.
  StoreExchange(const comm::Store& store, const std::string& purpose)
      : store_(store.clone().prefixed("vote-" + purpose)) {}

  void post(std::string_view key, std::string_view value) override;
  std::optional<std::string> wait(std::string_view key, std::chrono::milliseconds timeout) override;
  void forget(std::string_view key) override;

 private:
  comm::Store store_;
};

}  // namespace wmtp::run
