// Builds adapters into the weights they belong to while both arrive in any order: what is waiting
// for its partners is held, no more than a unit's worth when tensors come unit by unit.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "wmtp/layout/unit_spec.h"
#include "wmtp/model/lora.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::exports {

class AdapterMerger {
 public:
  struct Calls {
    // The base's weight that is to be compared with, undefined where none is.
    std::function<Tensor(const std::string& name)> unquantized;
    // Gets the weights of the model, those with an adapter merged in fp32, and the same of what
    // `unquantized` gave.
    std::function<void(const std::string& name, const Tensor& whole, const Tensor& wanted)> put;
  };
  AdapterMerger(const model::ModelConfig& config, const model::LoraConfig& lora, Calls calls);

  void take(const std::string& name, const Tensor& whole);

 private:
  struct Parts {
    Tensor weight, a, b;
    bool complete() const { return weight.defined() && a.defined() && b.defined(); }
  };
  model::LoraConfig lora_;
  Calls calls_;
  std::map<std::string, Parts, std::less<>> waiting_;  // by module, adapted ones only
};

}  // namespace wmtp::exports
