#include "wmtp/kernels/top_k.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/cpu/views.h"

namespace wmtp::kernels::cpu {
namespace {

// Larger scores first, NaN before all numbers, equal ones by index.
template <class T>
struct Before {
  const T* scores;
  bool operator()(std::int64_t a, std::int64_t b) const {
    const bool a_nan = std::isnan(scores[a]), b_nan = std::isnan(scores[b]);
    if (a_nan != b_nan) return a_nan;
    if (!a_nan && scores[a] != scores[b]) return scores[a] > scores[b];
    return a < b;
  }
};

}  // namespace

template <class T>
void top_k(const TopK& args) {
  constexpr std::int64_t kMillion = 1'000'000;
  const T* scores = args.scores_M.data_ptr<T>();
  T* selected = args.selected_M.data_ptr<T>();
  const std::uint8_t* valid = data_or_null<std::uint8_t>(args.valid_M);
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < args.scores_M.size(0); ++i) {
    selected[i] = 0;
    if (!valid || valid[i]) order.push_back(i);
  }
  const auto n = static_cast<std::int64_t>(order.size());
  const std::int64_t count = n == 0 ? 0 : 1 + (n - 1) * args.share_millionths / kMillion;
  double theta = std::numeric_limits<double>::quiet_NaN();
  if (n > 0) {
    const Before<T> before{scores};
    const auto edge = order.begin() + (count - 1);
    std::nth_element(order.begin(), edge, order.end(), before);
    for (auto at = order.begin(); at <= edge; ++at) selected[*at] = 1;
    theta = scores[*edge];
    const auto fraction = (n - 1) * (kMillion - args.share_millionths) % kMillion;
    if (fraction > 0) {  // the threshold lies between the edge and the next score below it
      const double below = scores[*std::min_element(edge + 1, order.end(), before)];
      theta = below + static_cast<double>(fraction) / kMillion * (theta - below);
    }
  }
  double* summary = args.summary_3.data_ptr<double>();
  summary[0] = static_cast<double>(n), summary[1] = static_cast<double>(count), summary[2] = theta;
}

template void top_k<float>(const TopK&);
template void top_k<double>(const TopK&);

}  // namespace wmtp::kernels::cpu
