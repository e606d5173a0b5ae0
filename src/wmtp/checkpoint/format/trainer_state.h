// trainer_state.json: all of the training state that is no tensor. This file knows its keys and its
// numbers, not their meaning.
#pragma once
#include <string>
#include <string_view>

#include "wmtp/core/json.h"

namespace wmtp::checkpoint {

// JSON text: floats in the shortest form that reads back equal, NaN and infinities as the strings
// "NaN", "Infinity", "-Infinity". A key of the list that is missing or unknown is ErrorKind::
// internal here and ErrorKind::checkpoint in parse, by name.
//   version step epoch samples_seen tokens_seen cursor rng optimizer schedule loss_scale ema best
//   early_stop layout mlflow, and loss_watch, which may be missing
std::string trainer_state_text(const OrderedJson& state);
Json parse_trainer_state(std::string_view text, std::string_view origin);

// A number, or one of the three strings.
double read_number(const Json& value, std::string_view key);

}  // namespace wmtp::checkpoint
