// Texts of values: canonical JSON for hashes and comparisons, YAML for people.
#pragma once
#include <string>
#include <string_view>

#include "wmtp/core/json.h"

namespace wmtp::config {

std::string number_text(double value);  // shortest that reads back, always a float: 1.0, 1e-05
std::string canonical_json(
    const OrderedJson& value);                    // no spaces, shortest numbers, keys as they stand
std::string yaml_text(const OrderedJson& value);  // flow style, one line, quoted only where needed

}  // namespace wmtp::config
