// What decides the numbers of a frozen model, as one digest: two runs with the same key would
// compute the same signals.
#pragma once
#include <filesystem>
#include <string>

#include "wmtp/data/plan/dataset.h"
#include "wmtp/run/plan/frozen_plan.h"

namespace wmtp::run {

// SHA-256 (hex) of the weights as the model computes with them, adapters merged: every element of
// every parameter that is read. BLOCKS: reads them all, once; `memo` (a folder) then remembers the
// digest as long as names, sizes and times of the model's files stay.
std::string weights_fingerprint(const FrozenPlan& frozen, const weights::Environment& environment,
                                const std::filesystem::path& memo);

// SHA-256 (hex) over weights, architecture, compute dtype and device, and for every data file its
// token cache's key (contents, tokenizer, prompt template), with the truncation.
std::string signal_key(const FrozenPlan& frozen, const std::string& weights,
                       const data::Corpus& corpus);

}  // namespace wmtp::run
