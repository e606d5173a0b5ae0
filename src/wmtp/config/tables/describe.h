// What the schema table says to others: editors (JSON Schema 2020-12) and readers (docs/config.md).
#pragma once
#include <string>

#include "wmtp/core/json.h"

namespace wmtp::config {

// A file is one layer of several, so no key is `required` here; any value may be a `${reference}`.
OrderedJson json_schema();
std::string markdown_reference();

}  // namespace wmtp::config
