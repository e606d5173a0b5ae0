// What travels through a vote: a yes with a value, or a no with its reason.
#pragma once
#include <string>
#include <string_view>

#include "wmtp/core/error.h"

namespace wmtp::checkpoint {

std::string ok(std::string_view value);
std::string failed(const Error& error);

struct Reply {
  bool yes = false;
  ErrorKind kind = ErrorKind::comm;  // of a no
  std::string text;                  // the value, or the reason
};
Reply parse_reply(std::string_view vote);

}  // namespace wmtp::checkpoint
