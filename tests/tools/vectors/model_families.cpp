// N rows, D features, I inputs, O outputs, R rank. Leading sizes of u and x may be any.
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "tools/vectors/families.h"
#include "tools/vectors/json_tensors.h"
#include "wmtp/model/adapters.h"
#include "wmtp/model/projection.h"
#include "wmtp/model/value_head.h"

namespace wmtp::vectors {
namespace {

std::vector<std::int64_t> with_last(const Tensor& like, std::vector<std::int64_t> last) {
  std::vector<std::int64_t> sizes = like.sizes().vec();
  sizes.pop_back();
  sizes.insert(sizes.end(), last.begin(), last.end());
  return sizes;
}

// The name under which the question gives a parameter: ours, or a tail of it ("mlp.0.weight",
// "0.weight"; a lone "weight" where there is one layer).
std::string given_name(const Json& params, const std::string& name, bool one_layer) {
  for (std::size_t from = 0; from != std::string::npos;) {
    const std::string tail = name.substr(from);
    const std::size_t dot = name.find('.', from);
    if (params.contains(tail) && (dot != std::string::npos || one_layer)) return tail;
    from = dot == std::string::npos ? dot : dot + 1;
  }
  throw Error(ErrorKind::data, "vectors", fmt::format("no parameter {}", name));
}

Json value_head(const Json& in) {
  const auto type = model::value_head_type(text(in, "type", "mlp"));
  const bool one_layer = type != model::ValueHeadType::mlp;
  const Tensor u = tensor(in.at("u")), u_ND = u.reshape({-1, u.size(-1)});
  const layout::UnitSpec unit = model::value_head_unit(type, u.size(-1));
  const Tensor weights = at::zeros({unit.numel()}, u.options()), grads = at::zeros_like(weights);
  std::int64_t at = 0;
  for (const layout::ParamSpec& param : unit.params) {
    const Tensor value =
        tensor(in.at("params").at(given_name(in["params"], param.name, one_layer)));
    if (value.numel() != param.numel())
      throw Error(
          ErrorKind::data, "vectors",
          fmt::format("{} has {} numbers, not {}", param.name, value.numel(), param.numel()));
    weights.narrow(0, at, param.numel()).copy_(value.reshape({-1}));
    at += param.numel();
  }
  const model::ValueHead head(type, u.size(-1));
  const model::ValueHeadPass pass = head.forward(weights, u_ND);
  const Tensor du =
      head.backward(weights, grads, pass, tensor(in.at("upstream_grad")).reshape({-1}));
  Json dparams = Json::object();
  at = 0;
  for (const layout::ParamSpec& param : unit.params) {
    dparams[given_name(in["params"], param.name, one_layer)] =
        to_json(grads.narrow(0, at, param.numel()).view(param.shape));
    at += param.numel();
  }
  return {{"v", to_json(pass.values_N.view(with_last(u, {})))},
          {"du", to_json(du.view(u.sizes()))},
          {"dparams", dparams}};
}

Json lora_linear(const Json& in) {
  const Tensor weight = tensor(in.at("W")), a = tensor(in.at("A")), b = tensor(in.at("B"));
  const Tensor x = tensor(in.at("x")), dy = tensor(in.at("upstream_grad"));
  const double scale = number(in.at("alpha")) / static_cast<double>(a.size(0));
  const model::AdapterGroup group{
      a, at::zeros_like(a), std::nullopt, {{b, at::zeros_like(b), scale, 0}}};
  const model::Projection projection{weight, {}, true, {group}};
  const Tensor x_NI = x.reshape({-1, x.size(-1)}), dy_NO = dy.reshape({-1, dy.size(-1)});
  const Tensor y = model::forward(projection, x_NI);
  const Tensor dx = model::backward(projection, x_NI, dy_NO);
  return {{"y", to_json(y.view(with_last(x, {weight.size(0)})))},
          {"dA", to_json(group.da_SI)},
          {"dB", to_json(group.adapters[0].db_OR)},
          {"dx", to_json(dx.view(x.sizes()))},
          {"merged", to_json(model::merged(weight, a, b, scale))}};
}

}  // namespace

Families model_families() {
  return {{"value_head", value_head}, {"lora_linear", lora_linear}};
}

}  // namespace wmtp::vectors
