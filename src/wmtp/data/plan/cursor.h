// Where a run stands in its data: all that is saved of the loader.
#pragma once
#include <cstdint>
#include <string>

#include "wmtp/core/json.h"

namespace wmtp::data {

struct Cursor {
  std::uint64_t epoch = 0, samples_taken = 0;  // in that epoch
  std::uint64_t seed = 0, num_samples = 0;     // N of the epoch
  std::string list_hash;                       // hex; of the epoch's drawn list
  std::string data_fingerprint, tokenizer_fingerprint;
  bool operator==(const Cursor&) const = default;
};

OrderedJson to_json(const Cursor& cursor);
Cursor cursor_from_json(const Json& json);  // ErrorKind::checkpoint for a missing or wrong field

// Whether a run whose data is `current` (list, fingerprints, seed) may go on at `saved`.
// ErrorKind::config naming what differs, unless `allow_data_change`: then the start of the next
// epoch, and a warning.
Cursor continue_from(const Cursor& saved, const Cursor& current, bool allow_data_change);

}  // namespace wmtp::data
