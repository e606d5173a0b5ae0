#include "wmtp/parallel/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "wmtp/core/error.h"

namespace wmtp::parallel {
namespace {

constexpr std::array<std::pair<std::string_view, Strategy>, 3> kNames{{
    {"NO_SHARD", Strategy::no_shard},
    {"SHARD_GRAD_OP", Strategy::shard_grad_op},
    {"FULL_SHARD", Strategy::full_shard},
}};

}  // namespace

std::string_view name_of(Strategy strategy) {
  for (const auto& [name, value] : kNames)
    if (value == strategy) return name;
  return "?";
}

Strategy strategy_from_name(std::string_view name) {
  std::string upper(name);
  std::ranges::transform(upper, upper.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (const auto& [known, value] : kNames)
    if (known == upper) return value;
  throw Error(ErrorKind::config, "parallel", fmt::format("unknown sharding strategy \"{}\"", name),
              "known are FULL_SHARD, SHARD_GRAD_OP and NO_SHARD");
}

}  // namespace wmtp::parallel
