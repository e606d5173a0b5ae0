// The profile of a run on its page.
#pragma once
#include <string>

#include "wmtp/tracking/profile_summary.h"

namespace wmtp::tracking {

// Two tables under a title, for the inside of a details element.
std::string profile_html(const ProfileSummary& summary);

}  // namespace wmtp::tracking
