#include "wmtp/data/plan/cursor.h"

#include <fmt/format.h>

#include "wmtp/core/log.h"

namespace wmtp::data {

OrderedJson to_json(const Cursor& cursor) {
  return {{"epoch", cursor.epoch},
          {"samples_taken", cursor.samples_taken},
          {"seed", cursor.seed},
          {"num_samples", cursor.num_samples},
          {"list_hash", cursor.list_hash},
          {"data_fingerprint", cursor.data_fingerprint},
          {"tokenizer_fingerprint", cursor.tokenizer_fingerprint}};
}

namespace {

const Json& field(const Json& json, const char* name, bool text) {
  if (!json.is_object() || !json.contains(name) ||
      (text ? !json[name].is_string() : !json[name].is_number_unsigned()))
    throw Error(ErrorKind::checkpoint, "data", fmt::format("the data cursor lacks \"{}\"", name));
  return json[name];
}

}  // namespace

Cursor cursor_from_json(const Json& json) {
  Cursor cursor;
  cursor.epoch = field(json, "epoch", false).get<std::uint64_t>();
  cursor.samples_taken = field(json, "samples_taken", false).get<std::uint64_t>();
  cursor.seed = field(json, "seed", false).get<std::uint64_t>();
  cursor.num_samples = field(json, "num_samples", false).get<std::uint64_t>();
  cursor.list_hash = field(json, "list_hash", true).get<std::string>();
  cursor.data_fingerprint = field(json, "data_fingerprint", true).get<std::string>();
  cursor.tokenizer_fingerprint = field(json, "tokenizer_fingerprint", true).get<std::string>();
  return cursor;
}

Cursor continue_from(const Cursor& saved, const Cursor& current, bool allow_data_change) {
  std::string changed;
  const auto compare = [&](bool same, std::string_view what) {
    if (!same) changed += fmt::format("{}{}", changed.empty() ? "" : ", ", what);
  };
  compare(saved.data_fingerprint == current.data_fingerprint, "the data files");
  compare(saved.tokenizer_fingerprint == current.tokenizer_fingerprint, "the tokenizer");
  compare(saved.seed == current.seed,
          fmt::format("data_sampling.seed ({} -> {})", saved.seed, current.seed));
  compare(saved.num_samples == current.num_samples,
          fmt::format("the number of samples ({} -> {})", saved.num_samples, current.num_samples));
  compare(saved.list_hash == current.list_hash, "the list of samples");
  if (changed.empty()) return saved;
  if (!allow_data_change)
    throw Error(ErrorKind::config, "data",
                fmt::format("cannot resume at epoch {} sample {}: changed since the checkpoint: {}",
                            saved.epoch, saved.samples_taken, changed),
                "restore it, or set checkpoint.allow_data_change: true to begin the next epoch");
  Cursor next = current;
  next.epoch = saved.samples_taken == 0 ? saved.epoch : saved.epoch + 1;
  next.samples_taken = 0;
  log::warn("data", "changed since the checkpoint: {}; starting epoch {} anew", changed,
            next.epoch);
  return next;
}

}  // namespace wmtp::data
