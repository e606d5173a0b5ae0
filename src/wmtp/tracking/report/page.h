// The report as one self-contained HTML page: no scripts, no network, also well-formed XML.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "wmtp/tracking/report/recorded/run_data.h"

namespace wmtp::tracking {

// What browsers let the page do: nothing but show itself.
inline constexpr const char* kPagePolicy =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'";

struct PageOptions {
  std::optional<int> refresh_s = {};      // loads itself again after that time, where it is served
  std::vector<std::string> notices = {};  // said first
};

// What was found comes first. The curves of several runs are laid over each other, and the
// differing keys of their configurations are listed. REQUIRES: at least one run.
std::string report_page(const std::vector<RunData>& runs, const PageOptions& options = {});

// What is served while there is nothing to report yet.
std::string waiting_page(const std::vector<std::string>& notices, int refresh_s);

}  // namespace wmtp::tracking
