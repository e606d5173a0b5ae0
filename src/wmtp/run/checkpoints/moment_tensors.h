// The moments of a shard as a checkpoint holds them, by parameter:
//   optim.state.<parameter>.exp_avg[_sq]          floating-point numbers, of the parameter's shape
//   optim.state.<parameter>.exp_avg[_sq].codes    in 8 bits: U8, of the parameter's shape
//   optim.state.<parameter>.exp_avg[_sq].scales   F32, of the blocks that the parameter touches
// Blocks count from the first trained parameter of the unit (kernels/moment_codes.h): one that two
// parameters share is in the scales of both.
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "wmtp/layout/shard_plan.h"
#include "wmtp/optim/moments.h"

namespace wmtp::run {

std::string moment_name(const std::string& parameter, optim::Moment moment);
std::string codes_name(const std::string& parameter, optim::Moment moment);
std::string scales_name(const std::string& parameter, optim::Moment moment);

// A parameter's place in its unit's trained buffer, and the blocks it touches there.
struct BlocksOfParam {
  std::int64_t start = 0;  // of the parameter in the buffer
  // Of elements of the parameter, counted from the first block it touches.
  layout::Range touched(layout::Range in_param) const;
};

// What a checkpoint holds.
struct StateReader {
  std::function<std::optional<DType>(const std::string& name)> dtype_of;  // nothing: not there
  // Elements [begin, begin + out.numel()) of a stored tensor into a host tensor, whose dtype they
  // are converted to.
  std::function<void(const std::string& name, std::int64_t begin, const Tensor& out)> read;
};

// Moments that were saved in one way and are kept in another: {"fp32", "8 bits"}.
using Conversions = std::set<std::pair<std::string, std::string>>;

// Fills both moments of one rank's shard. Codes are taken as they are; what is kept in another way
// than it was saved is converted once, which the result says. Errors of the reader.
Conversions load_shard_moments(const layout::BucketPlan& plan, int rank,
                               const optim::ShardMoments& moments, const StateReader& reader);

}  // namespace wmtp::run
