#include "training/law_bounds.h"

#include <cmath>

namespace wmtp::test {
namespace {

double norm_of(const Tensor& values) {
  return values.to(at::kDouble).norm().item<double>();
}

double order_error(double num_tokens) {
  return 0x1p-24 * std::sqrt(num_tokens);
}

// Of bf16 at each weight: 8 bits of fraction, the first of them not stored.
Tensor spacing_of(const Tensor& weights) {
  return weights.to(at::kDouble).abs().clamp_min(0x1p-126).log2().floor().exp2().mul(0x1p-7);
}

LawBounds exact_bounds(const LawTrace& trace) {
  LawBounds bounds;
  double rho = 0;
  for (const LawTrace::Step& step : trace.steps) {
    rho = std::max(rho, order_error(step.num_tokens));
    bounds.losses.push_back(rho * std::abs(step.loss));
  }
  for (std::size_t u = 0; u < trace.end.size(); ++u)
    bounds.weights.push_back(2 * std::sqrt(rho) *
                             norm_of(trace.end[u].sub(trace.steps.front().weights[u])));
  return bounds;
}

LawBounds rounded_bounds(const LawTrace& trace, double learning_rate) {
  LawBounds bounds;
  double sum_of_rho = 0;  // of the steps before
  std::vector<double> distances(trace.end.size());
  for (const LawTrace::Step& step : trace.steps) {
    double handed_on = 0, variance = 0, largest = 0;
    for (std::size_t u = 0; u < trace.end.size(); ++u) {
      if (trace.end[u].numel() == 0) continue;  // nothing of it is trained
      const Tensor spacing = spacing_of(step.weights[u]), grad = step.grads[u].to(at::kDouble);
      handed_on += distances[u] / norm_of(step.weights[u]);
      variance += learning_rate * sum_of_rho * grad.square().mul(spacing).sum().item<double>();
      largest = std::max(largest, grad.abs().mul(spacing).max().item<double>());
    }
    const double order = order_error(step.num_tokens);
    const bool apart = sum_of_rho > 0;
    bounds.losses.push_back(order * std::abs(step.loss) +
                            (apart ? kSigmas * std::sqrt(variance) + largest : 0));
    sum_of_rho += order + handed_on;
    for (std::size_t u = 0; u < trace.end.size(); ++u)
      distances[u] =
          std::sqrt(learning_rate * sum_of_rho * spacing_of(step.weights[u]).sum().item<double>());
  }
  for (std::size_t u = 0; u < trace.end.size(); ++u)
    bounds.weights.push_back(trace.end[u].numel() == 0
                                 ? 0
                                 : kSigmas * distances[u] +
                                       spacing_of(trace.end[u]).max().item<double>());
  return bounds;
}

}  // namespace

LawBounds law_bounds(const LawTrace& trace, optim::Recipe recipe, double learning_rate) {
  LawBounds bounds = optim::master_dtype(recipe) == kBFloat16 ? rounded_bounds(trace, learning_rate)
                                                              : exact_bounds(trace);
  const LawTrace::Step& first = trace.steps.front();
  for (const Tensor& grad : first.grads)
    bounds.first_grads.push_back(order_error(first.num_tokens) * norm_of(grad));
  return bounds;
}

}  // namespace wmtp::test
