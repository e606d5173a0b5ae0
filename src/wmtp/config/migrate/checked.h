// The end of every migration: keys that cannot act are taken out, and our own loader judges what is
// left.
#pragma once
#include <string>
#include <vector>

#include "wmtp/config/migrate/migration.h"
#include "wmtp/config/migrate/rewriter.h"

namespace wmtp::config {

// `head`: comment lines for the top of the result; `file` is named where a problem stands nowhere
// in the old file.
Migration checked(Rewriter& rewriter, const std::vector<std::string>& head, const std::string& file,
                  const Environment& env);

}  // namespace wmtp::config
