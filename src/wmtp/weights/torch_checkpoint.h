// Training checkpoints of the Python project (weighted_mtp), told apart by their keys:
//   {adapter_state_dict, ...}, {model_state_dict, ...}                a whole model
//   {backbone_state_dict, value_head_state_dict, config}              a critic ("full")
//   {lora_state_dict, extra_heads_state_dict, value_head_state_dict}  adapters ("lora", "hf_lora")
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/weights/torch_pickle.h"

namespace wmtp::weights {

// What such a file says besides its weights.
struct TorchCheckpoint {
  bool adapters_only = false;        // the frozen base is elsewhere
  std::string base_model;            // as the file names it; empty: it does not
  std::optional<std::int64_t> rank;  // of its adapters; nothing: the tensors say
  double alpha = 0;                  // what the file says, else the Python project's default
  double dropout = 0;                // of its adapters
  std::string value_head;            // linear, sigmoid or mlp; empty: the file does not say
  // Keys of the file that are not read: counters, metrics, optimizer states; and those among them
  // that hold a dict with a matrix, as weights that wmtp has no name for would.
  std::vector<std::string> left_out, unknown_weights;
};

// Nothing: the root is a bare state dict, or holds none.
std::optional<TorchCheckpoint> read_torch_checkpoint(const PickleTree& tree);

// A state dict of the file and what the names in it lack.
struct TorchStateDict {
  std::uint32_t node = 0;
  std::string_view prefix;
};
// Those of a training checkpoint, without optimizer states; else the root.
std::vector<TorchStateDict> torch_state_dicts(const PickleTree& tree);

// For a message: "epoch, model (12 tensors)", the first twenty keys of the root.
std::string torch_keys_text(const PickleTree& tree);
// "model_state_dict, ...": the keys that hold weights.
std::string known_state_dicts_text();

}  // namespace wmtp::weights
