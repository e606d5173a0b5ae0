// Decoded samples in the page: weights as shades, selected tokens marked, values as a curve.
#pragma once
#include <string>

#include "wmtp/tracking/sample_view.h"

namespace wmtp::tracking {

// The text shaded by weight; where the stage selects tokens, then once per head with the selected
// ones marked; where there are values, their curve. At most 1000 tokens are shown.
std::string sample_html(const DecodedSample& sample);

}  // namespace wmtp::tracking
