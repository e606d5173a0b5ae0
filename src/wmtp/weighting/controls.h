// Weights that carry no information, to compare TD weights with.
//   random    w = clamp(exp(mu + sigma g), clip_min, clip_max) where m = 1; g standard normal
//   shuffled  the finished TD weights of a document, permuted over its response positions
// Both depend on ids and counts alone, not on values: they are made on the host, ahead of the step
// (with the batch), and uploaded: random as the weights themselves, shuffled as an index tensor.
#pragma once
#include <cstdint>
#include <span>

#include "wmtp/weighting/weights.h"

namespace wmtp::weighting {

// ln w before clipping is normal with these.
struct LogNormal {
  double mu = 0, sigma = 1;
};
struct Moments {
  double mean = 0, std = 0;
};

// Mean and std of clamp(exp(N(mu, sigma^2)), lo, hi). A = (ln lo - mu)/sigma, B = (ln hi -
// mu)/sigma, F the normal CDF, F(-inf) = 0 for lo = 0:
//   E1 = lo F(A) + hi F(-B) + e^(mu + sigma^2/2) (F(B-sigma) - F(A-sigma))
//   E2 = lo^2 F(A) + hi^2 F(-B) + e^(2mu + 2sigma^2) (F(B-2sigma) - F(A-2sigma))
Moments clipped_moments(const LogNormal& law, double lo, double hi);
// The law whose moments AFTER clipping are `target`, to 1e-10: bisects mu inside a bisection of
// sigma. Solvable iff lo < mean < hi and 0 < std < sqrt((mean-lo)(hi-mean)); else Error config that
// names the bound.
LogNormal match_clipped(const Moments& target, double lo, double hi);
// sigma^2 = ln(1 + std^2/mean^2), mu = ln mean - sigma^2/2: the moments before clipping.
LogNormal match_unclipped(const Moments& target);

// BORROWS. N packed tokens, D documents.
struct HostDocuments {
  std::span<const std::int32_t> doc_start;    // D + 1
  std::span<const std::uint8_t> mask;         // N
  std::span<const std::uint64_t> sample_ids;  // D
};
struct ControlKey {
  std::uint64_t seed = 0, epoch = 0;  // epoch 0 in validation
};

// g of position t of a document comes from the counter generator keyed (seed, epoch, sample id, t):
// lane t % 4 of normals of Philox(seed, "control/random/<epoch>/<sample id>", t / 4). out: N, 0
// outside the mask.
void random_weights(const LogNormal& law, const WeightOptions& clip, const ControlKey& key,
                    const HostDocuments& docs, std::span<float> out);

// source[i] = the token whose weight position i gets: a Fisher-Yates over the document's response
// positions keyed (seed, "control/shuffled/<epoch>/<sample id>"); i itself outside the mask and in
// documents with one response token. Apply it with weights_N.index_select(0, source_N).
void shuffled_sources(const ControlKey& key, const HostDocuments& docs,
                      std::span<std::int32_t> source);

}  // namespace wmtp::weighting
