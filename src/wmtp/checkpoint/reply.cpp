#include "wmtp/checkpoint/reply.h"

#include <fmt/format.h>

namespace wmtp::checkpoint {
namespace {

constexpr std::string_view kYes = "yes ", kNo = "no ";

ErrorKind kind_named(std::string_view name) {
  for (const auto kind : {ErrorKind::config, ErrorKind::data, ErrorKind::io, ErrorKind::comm,
                          ErrorKind::device, ErrorKind::checkpoint, ErrorKind::numeric})
    if (name == wmtp::name_of(kind)) return kind;
  return ErrorKind::internal;
}

}  // namespace

std::string ok(std::string_view value) {
  return fmt::format("{}{}", kYes, value);
}

std::string failed(const Error& error) {
  return fmt::format("{}{} {}", kNo, wmtp::name_of(error.kind()), error.fact());
}

Reply parse_reply(std::string_view vote) {
  if (vote.starts_with(kYes)) return {.yes = true, .text = std::string(vote.substr(kYes.size()))};
  const std::size_t space = vote.find(' ', kNo.size());
  if (!vote.starts_with(kNo) || space == vote.npos)
    return {.text = "a vote that is neither yes nor no"};
  return {.kind = kind_named(vote.substr(kNo.size(), space - kNo.size())),
          .text = std::string(vote.substr(space + 1))};
}

}  // namespace wmtp::checkpoint
