#include "wmtp/weights/weight_check.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <set>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/weights/safetensors_tensor.h"

namespace wmtp::weights {
namespace {

constexpr std::string_view kUnembedding = "lm_head.weight",
                           kEmbedding = "model.embed_tokens.weight";

bool is_rotary(std::string_view name) {
  return name == "rope.freqs" || name.ends_with(".rotary_emb.inv_freq");
}

void compare_rotary(const WeightSource& source, const StoredTensor& tensor,
                    const std::vector<float>& inv_freq) {
  if (inv_freq.empty()) return;
  if (numel(tensor.shape) != static_cast<std::int64_t>(inv_freq.size()) ||
      !to_dtype(tensor.dtype)) {
    log::warn("checkpoint", "{} {} is no list of {} rotary frequencies; ignored", tensor.name,
              shape_text(tensor.shape), inv_freq.size());
    return;
  }
  const Tensor stored = at::empty({numel(tensor.shape)}, kFloat32);
  source.read(tensor, 0, stored);
  const float* values = stored.const_data_ptr<float>();
  for (std::size_t j = 0; j < inv_freq.size(); ++j)
    if (!(std::abs(values[j] - inv_freq[j]) <= 1e-3f * inv_freq[j])) {
      log::warn("checkpoint",
                "{}: frequency {} is {}, the config gives {}; is its rope theta right?",
                tensor.name, j, values[j], inv_freq[j]);
      return;
    }
}

// Elementwise in pieces, so that a large vocabulary costs no memory.
bool equal_elements(const WeightSource& source, const StoredTensor& a, const StoredTensor& b) {
  if (a.dtype != b.dtype || a.shape != b.shape || !to_dtype(a.dtype)) return false;
  constexpr std::int64_t kPiece = std::int64_t{1} << 20;
  const std::int64_t total = numel(a.shape);
  const auto options = at::TensorOptions().dtype(*to_dtype(a.dtype));
  const Tensor left = at::empty({std::min(kPiece, total)}, options),
               right = at::empty({std::min(kPiece, total)}, options);
  for (std::int64_t at = 0; at < total; at += kPiece) {
    const std::int64_t count = std::min(kPiece, total - at);
    source.read(a, at, left.narrow(0, 0, count));
    source.read(b, at, right.narrow(0, 0, count));
    const auto bytes = static_cast<std::size_t>(count) * element_bytes(*to_dtype(a.dtype));
    if (std::memcmp(left.const_data_ptr(), right.const_data_ptr(), bytes) != 0) return false;
  }
  return true;
}

class Findings {
 public:
  void check_expected(const WeightSource& source, const layout::ParamSpec& param) {
    known_.insert(param.name);
    const StoredTensor* stored = source.find(param.name);
    if (!stored)
      missing_.push_back(fmt::format("{} {}", param.name, shape_text(param.shape)));
    else if (stored->shape != param.shape)
      misshapen_.push_back(fmt::format("{} is {}, expected {} ({})", param.name,
                                       shape_text(stored->shape), shape_text(param.shape),
                                       source.file_of(*stored)));
    else if (const auto dtype = to_dtype(stored->dtype); !dtype || !c10::isFloatingType(*dtype))
      misshapen_.push_back(fmt::format("{} has dtype {}, expected floating-point numbers ({})",
                                       param.name, weights::name_of(stored->dtype),
                                       source.file_of(*stored)));
  }

  void check_stored(const WeightSource& source, const StoredTensor& stored,
                    const WeightExpectations& expected) {
    if (known_.contains(stored.name)) return;
    if (is_rotary(stored.name)) {
      compare_rotary(source, stored, expected.inv_freq);
    } else if (expected.tied && stored.name == kUnembedding) {
      const StoredTensor* embedding = source.find(kEmbedding);
      if (embedding && !equal_elements(source, stored, *embedding))
        misshapen_.push_back(fmt::format("{} differs from {}, although the config ties them",
                                         kUnembedding, kEmbedding));
    } else {
      unexpected_.push_back(
          fmt::format("{} {} ({})", stored.name, shape_text(stored.shape), source.file_of(stored)));
    }
  }

  void report(const std::string& origin) const {
    std::vector<std::string> parts;
    auto add = [&parts](std::string_view what, const std::vector<std::string>& list) {
      if (!list.empty())
        parts.push_back(fmt::format("{} {}: {}", list.size(), what, fmt::join(list, "; ")));
    };
    add("missing", missing_);
    add("unexpected", unexpected_);
    add("not as expected", misshapen_);
    if (!parts.empty())
      throw Error(
          ErrorKind::config, "checkpoint",
          fmt::format("{}: the weights do not fit the model; {}", origin, fmt::join(parts, "; ")),
          "do the config and the weights belong together?");
  }

 private:
  std::set<std::string, std::less<>> known_;
  std::vector<std::string> missing_, unexpected_, misshapen_;
};

}  // namespace

void check_weights(const WeightSource& source, const WeightExpectations& expected) {
  Findings findings;
  for (const auto& unit : expected.units)
    for (const auto& param : unit.params) findings.check_expected(source, param);
  for (const StoredTensor& stored : source.tensors())
    findings.check_stored(source, stored, expected);
  findings.report(expected.origin);
}

}  // namespace wmtp::weights
