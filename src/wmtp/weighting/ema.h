// The running mean and spread of x that whiten `ema` divides out. State M = 0, D = 1, c = 0; after
// a good step, from the sums over all its masked x on all ranks:
//   mu = Sx/n;  sd = sqrt(max(Sxx/n - mu^2, 1e-8));  c += 1
//   keep = (c-1)/K if c <= K else 1 - p;  M <- keep M + (1-keep) mu;  D <- keep D + (1-keep) sd
// n = 0 or a bad step: nothing changes. p: momentum, K: warm-up steps.
#pragma once
#include <cstdint>

#include "wmtp/tensor/tensor.h"

namespace wmtp::weighting {

struct EmaState {
  double mean = 0, std = 1;
  std::int64_t count = 0;
  double momentum = 0.1;
  std::int64_t warmup_steps = 10;
  bool operator==(const EmaState&) const = default;
};

struct MaskedSums {
  double sum = 0, sum_of_squares = 0, count = 0;  // Sx, Sxx, n
};

// The state after a good step. Pure; the definition.
EmaState update(EmaState state, const MaskedSums& sums);

// The same on the device, so that step s + 1 whitens with what step s left and the host never
// waits. The tracker's tensor is fp64 [M, D, c].
class EmaTracker {
 public:
  EmaTracker(const EmaState& state, c10::Device device);

  // BORROWS the tracker's own tensor, changed in place by update(): what ema_whitening reads.
  const Tensor& state_3() const { return state_3_; }
  // sums_3: [Sx, Sxx, n] fp64 over all ranks; apply: 0-d int32, 0 = bad step.
  void update(const Tensor& sums_3, const Tensor& apply);
  // From a host copy of state_3 [M, D, c]: the report's mirror, and what is saved.
  EmaState mirror(const double* state_3) const;
  EmaState read() const;  // BLOCKS until the device has finished what was enqueued
  // Mean, deviation and count of a saved tracker; momentum and warm-up stay this run's.
  void restore(const EmaState& state);

 private:
  double momentum_;
  std::int64_t warmup_steps_;
  Tensor state_3_;
};

}  // namespace wmtp::weighting
