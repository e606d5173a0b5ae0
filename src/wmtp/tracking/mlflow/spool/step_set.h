// A set of steps, small where they come in even strides, as those of a metric do.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace wmtp::tracking::mlflow {

class StepSet {
 public:
  bool contains(std::int64_t step) const;
  // Whether it is new.
  bool insert(std::int64_t step);
  bool empty() const { return strides_.empty(); }
  std::int64_t largest() const { return strides_.rbegin()->second.last; }  // REQUIRES !empty()
  std::size_t num_strides() const { return strides_.size(); }

 private:
  // first, first + stride, ..., last; stride 0: first alone. They do not overlap.
  struct Stride {
    std::uint64_t stride = 0;
    std::int64_t last = 0;
  };
  std::map<std::int64_t, Stride> strides_;  // by first
};

using HeldSteps = std::map<std::string, StepSet, std::less<>>;  // by key

}  // namespace wmtp::tracking::mlflow
