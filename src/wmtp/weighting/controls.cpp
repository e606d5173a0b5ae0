#include "wmtp/weighting/controls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "wmtp/core/error.h"
#include "wmtp/core/rng.h"

namespace wmtp::weighting {
namespace {

double normal_cdf(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

// F(b) - F(a) for a <= b, without cancellation in the upper tail.
double normal_between(double a, double b) {
  return a > 0 ? normal_cdf(-a) - normal_cdf(-b) : normal_cdf(b) - normal_cdf(a);
}

// e^(j mu + j^2 sigma^2 / 2) (F(B - j sigma) - F(A - j sigma)): the j-th moment of the part between
// the bounds, in logarithms: a huge factor may meet a tiny one.
double inner_moment(const LogNormal& law, double a, double b, double j) {
  const double between = normal_between(a - j * law.sigma, b - j * law.sigma);
  return between <= 0
             ? 0
             : std::exp(j * law.mu + j * j * law.sigma * law.sigma / 2 + std::log(between));
}

// mu of the given mean; E1 grows with mu.
double solve_mu(double sigma, double mean, double lo, double hi) {
  double low = std::log(hi) - 60 * (1 + sigma), high = std::log(hi) + 60 * (1 + sigma);
  for (int i = 0; i < 200 && low < high; ++i) {
    const double middle = 0.5 * (low + high);
    if (middle == low || middle == high) break;
    (clipped_moments({middle, sigma}, lo, hi).mean < mean ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

[[noreturn]] void refuse_control(const std::string& fact, const std::string& hint) {
  throw Error(ErrorKind::config, "weighting", fact, hint);
}

void check_target(const Moments& target, double lo, double hi) {
  if (!(lo >= 0 && lo < hi))
    refuse_control(fmt::format("clip bounds {}..{}", lo, hi), "0 <= lo < hi");
  if (!(target.mean > lo && target.mean < hi))
    refuse_control(fmt::format("control.mean is {}", target.mean),
                   fmt::format("it must lie between clip_min {} and clip_max {}", lo, hi));
  const double bound = std::sqrt((target.mean - lo) * (hi - target.mean));
  if (!(target.std > 0 && target.std < bound))
    refuse_control(
        fmt::format("control.std is {}", target.std),
        fmt::format("with mean {} and weights in {}..{} it must lie between 0 and {:.6g}",
                    target.mean, lo, hi, bound));
}

}  // namespace

Moments clipped_moments(const LogNormal& law, double lo, double hi) {
  const double a = (std::log(lo) - law.mu) / law.sigma, b = (std::log(hi) - law.mu) / law.sigma;
  const double below = normal_cdf(a), above = normal_cdf(-b);
  const double first = lo * below + hi * above + inner_moment(law, a, b, 1);
  const double second = lo * lo * below + hi * hi * above + inner_moment(law, a, b, 2);
  return {first, std::sqrt(std::max(second - first * first, 0.0))};
}

LogNormal match_clipped(const Moments& target, double lo, double hi) {
  check_target(target, lo, hi);
  const auto std_of = [&](double sigma) {
    return clipped_moments({solve_mu(sigma, target.mean, lo, hi), sigma}, lo, hi).std;
  };
  double low = 1e-9, high = 1;
  while (std_of(high) < target.std && high < 1e6) low = high, high *= 2;
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    if (middle == low || middle == high) break;
    (std_of(middle) < target.std ? low : high) = middle;
  }
  const double sigma = 0.5 * (low + high);
  const LogNormal law{solve_mu(sigma, target.mean, lo, hi), sigma};
  const Moments got = clipped_moments(law, lo, hi);
  if (std::abs(got.mean - target.mean) > 1e-10 || std::abs(got.std - target.std) > 1e-10)
    refuse_control(fmt::format("no clipped law has mean {} and std {}: the nearest has {} and {}",
                               target.mean, target.std, got.mean, got.std),
                   "choose control.std further from its bounds");
  return law;
}

LogNormal match_unclipped(const Moments& target) {
  if (!(target.mean > 0 && target.std > 0))
    refuse_control(fmt::format("control.mean is {} and control.std {}", target.mean, target.std),
                   "both must be above 0");
  const double variance = std::log1p(target.std * target.std / (target.mean * target.mean));
  return {std::log(target.mean) - variance / 2, std::sqrt(variance)};
}

void random_weights(const LogNormal& law, const WeightOptions& clip, const ControlKey& key,
                    const HostDocuments& docs, std::span<float> out) {
  check(clip);
  WMTP_CHECK(out.size() == docs.mask.size(), "random_weights: as many weights as tokens");
  std::fill(out.begin(), out.end(), 0.0f);
  for (std::size_t d = 0; d + 1 < docs.doc_start.size(); ++d) {
    const std::uint64_t stream =
        stream_id(fmt::format("control/random/{}/{}", key.epoch, docs.sample_ids[d]));
    const auto begin = static_cast<std::size_t>(docs.doc_start[d]),
               end = static_cast<std::size_t>(docs.doc_start[d + 1]);
    for (std::size_t i = begin; i < end; ++i) {
      if (!docs.mask[i]) continue;
      const std::uint64_t t = i - begin;
      const double g = four_normals(philox4x32_10(key.seed, stream, t / 4))[t % 4];
      out[i] = static_cast<float>(
          std::clamp(std::exp(law.mu + law.sigma * g), clip.clip_min, clip.clip_max));
    }
  }
}

void shuffled_sources(const ControlKey& key, const HostDocuments& docs,
                      std::span<std::int32_t> source) {
  WMTP_CHECK(source.size() == docs.mask.size(), "shuffled_sources: one source per token");
  std::vector<std::int32_t> places, order;
  for (std::size_t d = 0; d + 1 < docs.doc_start.size(); ++d) {
    places.clear();
    for (std::int32_t i = docs.doc_start[d]; i < docs.doc_start[d + 1]; ++i) {
      source[static_cast<std::size_t>(i)] = i;
      if (docs.mask[static_cast<std::size_t>(i)]) places.push_back(i);
    }
    if (places.size() < 2) continue;
    order = places;
    RngStream(key.seed, fmt::format("control/shuffled/{}/{}", key.epoch, docs.sample_ids[d]))
        .shuffle(std::span(order));
    for (std::size_t j = 0; j < places.size(); ++j)
      source[static_cast<std::size_t>(places[j])] = order[j];
  }
}

}  // namespace wmtp::weighting
