// B rows, T positions, H heads, V vocabulary, N = B T.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "tools/vectors/families.h"
#include "tools/vectors/head_rows.h"
#include "tools/vectors/json_tensors.h"
#include "wmtp/tensor/dtype.h"
#include "wmtp/weighting/rho1.h"

namespace wmtp::vectors {
namespace {

using namespace weighting;

Json rho1_select(const Json& in) {
  const Tensor z = tensor(in.at("z")), reference = tensor(in.at("ref_z"));
  const std::int64_t num_rows = z.size(0), length = z.size(1), num_heads = z.size(2),
                     vocabulary = z.size(3);
  const auto mode = static_cast<Rho1Mode>(
      choice(text(in, "mode", "signed"), {"signed", "absolute", "difficult"}));
  const bool all_of_first = choice(text(in, "first_head", "always"), {"always", "topk"}) == 0;
  const std::int64_t share = share_in_millionths(number(in, "k_percent", .6));
  const auto heads = head_rows(tensor(in.at("y")), tensor(in.at("m")), num_heads);
  const Tensor weights_NH = at::zeros({num_rows * length, num_heads}, z.options());
  for (std::int64_t k = 1; k <= num_heads; ++k) {
    const HeadRows& head = heads[static_cast<std::size_t>(k - 1)];
    if (head.rows_M.size(0) == 0) continue;
    const Tensor nll = nll_of(z.select(2, k - 1).reshape({-1, vocabulary}), head);
    // The reference predicts the same token from the position right before it.
    const Tensor reference_nll =
        nll_of(reference.view({-1, vocabulary}), {head.rows_M.add(k - 1), head.targets_M});
    const Tensor weights_M = k == 1 && all_of_first
                                 ? at::full({nll.size(0)}, 1.0, nll.options())
                                 : select(scores(mode, nll, reference_nll), share).weights_M;
    weights_NH.select(1, k - 1).index_copy_(0, head.rows_M.to(kInt64), weights_M);
  }
  return {{"w", to_json(weights_NH.view({num_rows, length, num_heads}))}};
}

// counts of n = lo .. hi, both included.
Json rho1_counts(const Json& in) {
  const auto lo = static_cast<std::int64_t>(number(in.at("n")[0])),
             hi = static_cast<std::int64_t>(number(in.at("n")[1]));
  const std::int64_t share = share_in_millionths(number(in, "k_percent", .6));
  Json counts = Json::array();
  for (std::int64_t n = lo; n <= hi; ++n) counts.push_back(selected_count(n, share));
  return {{"counts", counts}};
}

}  // namespace

Families rho1_families() {
  return {{"rho1_select", rho1_select}, {"rho1_counts", rho1_counts}};
}

}  // namespace wmtp::vectors
