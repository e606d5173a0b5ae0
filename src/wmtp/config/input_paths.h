// Path keys: `~/` and whether inputs exist.
#pragma once
#include <string>
#include <vector>

#include "wmtp/config/load.h"
#include "wmtp/config/tables/schema.h"
#include "wmtp/config/yaml/node.h"

namespace wmtp::config {

// Expands a leading `~/` in a text or in a list of texts; false if HOME is needed and not set.
bool expand_home(Node& node, const Environment& env);

// The paths of an input row that do not exist. A model name that may be a preset or an `org/name`
// is not a path: only what starts with `/`, `./`, `../` or has two slashes is.
std::vector<std::string> missing_inputs(const Row& row, const Config& config);

// What is there in place of a missing path, to follow the fact: `; did you mean "..."?`, or the
// part of it that exists. Empty where nothing is near.
std::string instead_of_missing(const std::string& path);

}  // namespace wmtp::config
