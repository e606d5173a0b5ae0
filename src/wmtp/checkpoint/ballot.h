// What travels through a vote: a yes with a value, or a no with its reason.
#pragma once
#include <string>
#include <string_view>

#include "wmtp/core/error.h"

namespace wmtp::checkpoint {

std::string yes(std::string_view value);
std::string no(const Error& error);

struct Ballot {
  bool yes = false;
  ErrorKind kind = ErrorKind::comm;  // of a no
  std::string text;                  // the value, or the reason
};
Ballot parse_ballot(std::string_view vote);

}  // namespace wmtp::checkpoint
