#include "wmtp/parallel/update_share.h"

#include <cstdlib>

namespace wmtp::parallel {
namespace {

// What a multiprocessor of an H200 does in a second. On other GPUs both are less by about as much.
constexpr double kOperations = 5e12, kBytes = 1.1e11;
constexpr double kOperationsOfWeight = 2;  // a token
constexpr double kBytesOfUpdate = 28;      // gradient and state read, state written

constexpr int kMultiprocessors = 16, kMultiprocessorsInAll = 132;
constexpr double kLongest = 0.65, kShortest = 0.02;  // parts of a pass

}  // namespace

UpdateShare update_share(const UpdateWork& work) {
  int n = kMultiprocessors;
  double force = 0;
  if (const char* e = std::getenv("WMTP_BESIDE")) n = std::atoi(e);
  if (const char* e = std::getenv("WMTP_BESIDE_UNITS")) force = std::atof(e);
  if (n == 0) return {};
  const double update_s = kBytesOfUpdate * static_cast<double>(work.trained) / (kBytes * n);
  const double pass_s = kOperationsOfWeight * static_cast<double>(work.weights) *
                        static_cast<double>(work.tokens) /
                        (kOperations * (kMultiprocessorsInAll - n));
  const double part = pass_s > 0 ? update_s / pass_s : 1;
  if (force > 0) return {n, force};
  if (part > kLongest || part < kShortest) return {};
  return {n, part};
}

}  // namespace wmtp::parallel
