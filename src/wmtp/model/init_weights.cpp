#include "wmtp/model/init_weights.h"

#include <fmt/format.h>

#include <cmath>

#include "wmtp/core/error.h"
#include "wmtp/core/rng.h"
#include "wmtp/kernels/cpu/parallel.h"

namespace wmtp::model {
namespace {

template <class T, class Draw>
void fill(std::uint64_t seed, std::uint64_t stream, std::int64_t begin, const Tensor& out,
          Draw draw) {
  T* data = out.data_ptr<T>();
  const std::int64_t end = begin + out.numel();
  // Whole counter values of four, the first and last perhaps cut.
  const std::int64_t first_index = begin / 4;
  kernels::cpu::parallel_for(
      (end + 3) / 4 - first_index, 4096, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t index = first_index + first; index < first_index + last; ++index) {
          const auto four = draw(philox4x32_10(seed, stream, static_cast<std::uint64_t>(index)));
          for (std::int64_t lane = 0; lane < 4; ++lane)
            if (const std::int64_t i = 4 * index + lane; i >= begin && i < end)
              data[i - begin] =
                  static_cast<T>(static_cast<float>(four[static_cast<std::size_t>(lane)]));
        }
      });
}

template <class T>
void draw_as(const layout::ParamSpec& param, std::uint64_t seed, double std, std::int64_t begin,
             const Tensor& out) {
  const std::uint64_t stream = stream_id("init/" + param.name);
  if (param.name.ends_with("lora_A.weight")) {
    const double bound = 1.0 / std::sqrt(static_cast<double>(param.shape.at(1)));
    fill<T>(seed, stream, begin, out, [bound](const PhiloxWords& words) {
      std::array<double, 4> four;
      for (std::size_t i = 0; i < 4; ++i) four[i] = bound * (2 * unit_uniform(words[i]) - 1);
      return four;
    });
    return;
  }
  fill<T>(seed, stream, begin, out, [std](const PhiloxWords& words) {
    std::array<double, 4> four = four_normals(words);
    for (double& x : four) x *= std;
    return four;
  });
}

}  // namespace

void random_init(const layout::ParamSpec& param, std::uint64_t seed, double std, std::int64_t begin,
                 const Tensor& out) {
  WMTP_CHECK(begin >= 0 && begin + out.numel() <= param.numel(),
             "a range outside the parameter was asked for");
  if (param.name.ends_with("norm.weight")) {
    out.fill_(1.0);
  } else if (param.name.ends_with("lora_B.weight")) {
    out.zero_();
  } else if (out.scalar_type() == at::kDouble) {
    draw_as<double>(param, seed, std, begin, out);
  } else {
    draw_as<float>(param, seed, std, begin, out);
  }
}

}  // namespace wmtp::model
