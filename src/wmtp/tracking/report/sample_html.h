// Decoded samples in the page: weights or values as shades, selected tokens marked, values as a
// curve.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "wmtp/tracking/report/recorded/run_data.h"

namespace wmtp::tracking {

// How one row looked when the run began, and how it looks now.
struct SampleHistory {
  const DecodedSample* first = nullptr;
  const DecodedSample* last = nullptr;  // the same object where it was recorded once
};
// Of the first row and, where rows are right or wrong and the second is otherwise, of that one.
// BORROWS run.
std::vector<SampleHistory> sample_histories(const RunData& run);
// "sample 12 of dataset.validation", "sample 3 of file 2 of dataset.train"; "" where it is not
// told.
std::string sample_place(const DecodedSample& sample);

// First and last side by side: the text shaded by weight, or by value where a critic's weights are
// all the same, on one scale for both; where the stage selects tokens, then once per head with the
// selected ones marked; where there are values, their curves. At most 1000 tokens are shown.
std::string samples_html(const std::vector<RunData>& runs);

}  // namespace wmtp::tracking
