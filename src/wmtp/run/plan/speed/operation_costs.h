// Seconds of operations at the rates of a device, added up by what they are.
#pragma once
#include "wmtp/run/plan/speed/device_model.h"

namespace wmtp::run {

struct OperationSeconds {
  double products = 0, attention = 0, passes = 0;
  double calls = 0;  // how many operations

  OperationSeconds& operator+=(const OperationSeconds& other);
  OperationSeconds operator*(double times) const;
  // From the first operation to the last.
  double elapsed(const DeviceModel& device, double model_width) const;
};

class OperationCosts {
 public:
  // BORROWS the device. `element_bytes`: of the compute dtype.
  OperationCosts(const DeviceModel& device, double element_bytes)
      : device_(device), element_bytes_(element_bytes) {}

  // [rows, inputs] x [inputs, outputs].
  void product(double rows, double outputs, double inputs);
  // The same on operands in float8. REQUIRES a device that takes them.
  void float8_product(double rows, double outputs, double inputs);
  // Causal, `width` = heads times their features.
  void attention_forward(double tokens, double span, double width);
  void attention_backward(double tokens, double span, double width);
  void pass(Pass which, double bytes);
  // A pass over elements of the compute dtype: so many are read or written.
  void elements(Pass which, double count) { pass(which, count * element_bytes_); }

  const OperationSeconds& sum() const { return sum_; }
  double element_bytes() const { return element_bytes_; }
  const DeviceModel& device() const { return device_; }

 private:
  const RateCurve& products() const;
  void attention(const RateCurve& rate, double flops, double span);

  const DeviceModel& device_;
  double element_bytes_;
  OperationSeconds sum_;
};

}  // namespace wmtp::run
