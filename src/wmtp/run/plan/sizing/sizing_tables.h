// The tables of docs/sizing.md: what models of common sizes need on common GPUs, and the settings
// they are trained with. Nothing is read or measured.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "wmtp/run/plan/sizing/choose.h"

namespace wmtp::run {

inline constexpr std::int64_t kTableLength = 2048;  // tokens of a row
inline constexpr std::int64_t kTableLoraRank = 16;  // on the attention

struct TableQuestion {
  std::string size;    // "7B", "< 1B"
  std::string preset;  // "llama-2-7b"
  bool lora = false;   // else everything is trained
  std::string gpu;     // "h100"
  int world = 1;       // nodes of eight
};

struct TableAnswer {
  TableQuestion question;
  std::optional<Chosen> chosen;               // absent: does not fit
  std::optional<std::int64_t> largest_batch;  // at the chosen settings
};

// 0.6B, 7B, 13B and 70B, full and LoRA, on 1, 4, 8 and 64 GPUs of 80 GB and of the H200.
std::vector<TableAnswer> size_answers();
// By size of the model: on the fewest GPUs (1, 2, 4, ... 64) that it fits.
std::vector<TableAnswer> settings_answers();

// Both as Markdown.
std::string sizing_tables();

}  // namespace wmtp::run
