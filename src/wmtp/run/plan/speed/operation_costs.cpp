#include "wmtp/run/plan/speed/operation_costs.h"

#include <algorithm>

#include "wmtp/core/error.h"

namespace wmtp::run {

OperationSeconds& OperationSeconds::operator+=(const OperationSeconds& other) {
  products += other.products;
  attention += other.attention;
  passes += other.passes;
  calls += other.calls;
  return *this;
}

OperationSeconds OperationSeconds::operator*(double times) const {
  return {products * times, attention * times, passes * times, calls * times};
}

double OperationSeconds::elapsed(const DeviceModel& device, double model_width) const {
  const double computing = products + attention + passes + calls * device.call_s;
  return std::max(computing / device.busy.at(model_width), calls * device.host_call_s);
}

const RateCurve& OperationCosts::products() const {
  return element_bytes_ >= 4 ? device_.full_products : device_.products;
}

// Narrow products are bound by the memory: all three matrices move once.
void OperationCosts::product(double rows, double outputs, double inputs) {
  if (rows <= 0) return;
  const double flops = 2 * rows * outputs * inputs;
  const double bytes = element_bytes_ * (rows * inputs + inputs * outputs + rows * outputs);
  sum_.products += std::max(flops / products().at(std::min({rows, outputs, inputs})),
                            bytes / device_.memory_bytes_per_s);
  ++sum_.calls;
}

void OperationCosts::float8_product(double rows, double outputs, double inputs) {
  WMTP_CHECK(device_.peak_float8_flops > 0, "products in float8 on a device that has none");
  if (rows <= 0) return;
  const double flops = 2 * rows * outputs * inputs;
  const double bytes = rows * inputs + inputs * outputs + element_bytes_ * rows * outputs;
  sum_.products += std::max(flops / device_.float8_products.at(std::min({rows, outputs, inputs})),
                            bytes / device_.memory_bytes_per_s);
  ++sum_.calls;
}

// The curves are those of the compute dtype that a device is best at; another one is as much slower
// in attention as it is in products.
void OperationCosts::attention(const RateCurve& rate, double flops, double span) {
  const double slower = device_.products.at(span) / products().at(span);
  sum_.attention += slower * flops / rate.at(span);
  ++sum_.calls;
}

void OperationCosts::attention_forward(double tokens, double span, double width) {
  attention(device_.attention_forward, 2 * tokens * span * width, span);
}

void OperationCosts::attention_backward(double tokens, double span, double width) {
  attention(device_.attention_backward, 4 * tokens * span * width, span);
}

void OperationCosts::pass(Pass which, double bytes) {
  if (bytes <= 0) return;
  sum_.passes += bytes / device_.pass(which).at(bytes);
  ++sum_.calls;
}

}  // namespace wmtp::run
