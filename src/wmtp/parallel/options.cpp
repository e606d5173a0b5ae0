#include "wmtp/parallel/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "wmtp/core/error.h"

namespace wmtp::parallel {
namespace {

constexpr std::array<std::pair<std::string_view, Strategy>, 4> kNames{{
    {"NO_SHARD", Strategy::no_shard},
    {"SHARD_GRAD_OP", Strategy::shard_grad_op},
    {"FULL_SHARD", Strategy::full_shard},
    {"HYBRID_SHARD", Strategy::hybrid_shard},
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
              "known are FULL_SHARD, SHARD_GRAD_OP, NO_SHARD and HYBRID_SHARD");
}

Placement placement_of(const ParallelOptions& options, int rank, int world) {
  switch (options.strategy) {
    case Strategy::no_shard:
      return {rank, world, 1};
    case Strategy::hybrid_shard:
      WMTP_CHECK(options.shard_group_size > 0 && world % options.shard_group_size == 0,
                 "groups of equal size");
      return {rank, world, options.shard_group_size};
    default:
      return {rank, world, world};
  }
}

}  // namespace wmtp::parallel
