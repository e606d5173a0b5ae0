// Stretches of host work under a name, for a profile (run/profile/). Where none is taken a scope
// costs a look at LibTorch's list of observers, some nanoseconds: its name is put together only
// where one is. THREADS: a scope ends on the thread it began on.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>

namespace at {
struct RecordFunction;
}

namespace wmtp {

// A phase, a unit or a collective: it says where other work belongs.
class ProfileScope {
 public:
  // The name is `what` followed by `which`, as in ("forward layers.", 3).
  explicit ProfileScope(std::string_view what, std::string_view which = {});
  ProfileScope(std::string_view what, std::int64_t which);
  ~ProfileScope();
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  std::unique_ptr<at::RecordFunction> record_;  // null: no profile is taken
};

// Work itself, as an operator of LibTorch is: what tables of a profile add up. `name` as in
// "wmtp::rms_norm".
class ProfiledOperator {
 public:
  explicit ProfiledOperator(std::string_view name, std::string_view suffix = {});
  ~ProfiledOperator();
  ProfiledOperator(const ProfiledOperator&) = delete;
  ProfiledOperator& operator=(const ProfiledOperator&) = delete;

 private:
  std::unique_ptr<at::RecordFunction> record_;
};

}  // namespace wmtp
