// Which difficulty bins are drawn when, as a drawing and a table.
#pragma once
#include <string>

#include "wmtp/data/outlook/data_outlook.h"

namespace wmtp::cli::pages {

// "" where the data has no difficulty bins.
std::string curriculum_html(const data::DataOutlook& outlook);

}  // namespace wmtp::cli::pages
