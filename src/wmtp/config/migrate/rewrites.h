// Keys that need more than another name.
#pragma once
#include <string>
#include <string_view>

#include "wmtp/config/migrate/rewriter.h"
#include "wmtp/config/tables/schema.h"

namespace wmtp::config {

using Rewrite = void (*)(Rewriter& rewriter, const OldEntry& entry);

// How a key or section of the old form that old_keys.h calls translated is rewritten; null: not
// here.
Rewrite translation_of(std::string_view path);
// The same for a key that there still is, but whose old values are not all values now.
Rewrite value_rewrite_of(std::string_view key);

// The map models.policy.params, field by field.
void rewrite_params(Rewriter& rewriter, const OldEntry& entry);

// The value as its key is spelled here: `yes` as true, bfloat16 as bf16, 1_000 as 1000. Returns why
// it changed; empty: it did not.
std::string respell(const Row& row, Node& value);

// A name that experiment.name takes.
std::string run_name(std::string text);

}  // namespace wmtp::config
