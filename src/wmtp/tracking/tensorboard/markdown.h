// Texts for TensorBoard's text page: Markdown that is one block of HTML, with the few elements that
// the page lets through. Foreign text in it is escaped and valid UTF-8, or the page would fail.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "wmtp/tracking/sample_view.h"

namespace wmtp::tracking::tensorboard {

// The sample with its line breaks. Targets are bold, those that head 1 leaves out in italics;
// behind a target its weight in braces, unless every weight is 1, and its value in brackets. Then a
// legend and the sum of it.
std::string sample_markdown(const DecodedSample& sample);

std::string table_markdown(const std::vector<std::pair<std::string, std::string>>& rows);

}  // namespace wmtp::tracking::tensorboard
