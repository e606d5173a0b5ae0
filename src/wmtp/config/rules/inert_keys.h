// Keys that cannot act beside the values of others: the one table of "this key has no effect
// when ...". What the stage file or an override writes in vain is refused; what comes down from
// defaults.yaml or an extended file, and what stands behind a switch that is off, is ignored with a
// notice.
#pragma once
#include <string>
#include <string_view>

#include "wmtp/config/config.h"

namespace wmtp::config {

struct InertRule {
  std::string_view keys;                 // a key, or a section with its last dot
  bool (*holds)(const Config&);          // the key has no effect
  std::string (*reason)(const Config&);  // "stage baseline does not use it"
  // The section belongs to a switch (training.use_lora) that may be turned off and on again:
  // ignored with a notice wherever it is written.
  bool switched = false;

  // What a notice names: the section, or the key itself.
  std::string_view subject() const {
    return keys.ends_with('.') ? keys.substr(0, keys.size() - 1) : keys;
  }
};

// The first rule by which `key` has no effect; null: it acts.
const InertRule* inert_rule(std::string_view key, const Config& config);

}  // namespace wmtp::config
