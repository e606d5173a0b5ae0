// What `data inspect` shows: figures of a data set and decoded sequences, as text or as a page.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/data/outlook/data_outlook.h"
#include "wmtp/data/summary.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::cli::pages {

// One decoded sequence: its tokens as pieces of text that join to the whole, and which are targets.
struct ShownSequence {
  std::string title;
  std::string batch;  // the micro-batch it belongs to; "": none
  std::vector<std::int32_t> ids;
  std::vector<std::string> pieces;
  std::uint32_t prompt_len = 0;
  std::uint64_t num_padding = 0;  // behind it in its batch

  // Nothing stands before the first token from which it could be predicted.
  std::uint32_t first_target() const { return std::max(prompt_len, 1u); }
};
ShownSequence show_sequence(const data::EpochView& view, const data::Sequence& sequence,
                            const tokenizer::Tokenizer& tokenizer, std::string title);

struct InspectPage {
  std::string heading;
  std::vector<std::string> lines;            // warnings, lists
  std::optional<data::DataSummary> summary;  // none: not asked for
  std::optional<data::DataOutlook> outlook;  // of training data
  std::vector<ShownSequence> sequences;
  bool per_token = false;  // a line for each token
};

std::vector<std::string> figure_lines(const InspectPage& page);  // of summary and outlook
std::string to_text(const InspectPage& page, bool color);
std::string to_html(const InspectPage& page);

// Which heads have the token at `place` as a target: head k predicts it from k tokens before.
std::string heads_of_target(std::uint32_t place);

}  // namespace wmtp::cli::pages
