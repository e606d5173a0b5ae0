// Values of a configuration as others may see them: what came from the environment stands as its
// reference, `${env:NAME}`.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/config/load.h"
#include "wmtp/tracking/run_summary.h"

namespace wmtp::run {

// REQUIRES a key of the schema.
const config::ResolvedKey& key_named(const config::ResolvedConfig& resolved, std::string_view name);
const OrderedJson& public_value(const config::ResolvedKey& key);
std::string plain_text(const OrderedJson& value);  // a text as it is, null as nothing, else JSON

std::string public_text(const config::ResolvedConfig& resolved, std::string_view name);
// One or several texts: a path or a list of them, or tags.
std::vector<std::string> public_texts(const config::ResolvedConfig& resolved,
                                      std::string_view name);

tracking::RunLabels run_labels(const config::ResolvedConfig& resolved);

}  // namespace wmtp::run
