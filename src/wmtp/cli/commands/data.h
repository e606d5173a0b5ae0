// The parts of `wmtp data`: each adds its subcommand to the parent.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "wmtp/cli/command.h"
#include "wmtp/config/config.h"
#include "wmtp/data/plan/dataset.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::cli {

void add_data_index(CLI::App& data, Session& session);
void add_data_tokenize(CLI::App& data, Session& session);
void add_data_inspect(CLI::App& data, Session& session);
void add_data_demo(CLI::App& data, Session& session);

// models.policy.tokenizer_path, else the model's folder.
std::shared_ptr<const tokenizer::Tokenizer> policy_tokenizer(const config::Config& config);

// One decoded sequence: its tokens as pieces of text that join to the whole, and which are targets.
struct ShownSequence {
  std::string title;
  std::vector<std::int32_t> ids;
  std::vector<std::string> pieces;
  std::uint32_t prompt_len = 0;

  // Nothing stands before the first token from which it could be predicted.
  std::uint32_t first_target() const { return std::max(prompt_len, 1u); }
};
ShownSequence show_sequence(const data::EpochView& view, const data::Sequence& sequence,
                            const tokenizer::Tokenizer& tokenizer, std::string title);

struct InspectPage {
  std::string heading;
  std::vector<std::string> lines;        // statistics, warnings, lists
  std::vector<std::uint64_t> histogram;  // lengths; empty: not asked for
  std::uint32_t longest = 0;
  std::vector<ShownSequence> sequences;
};
std::string to_text(const InspectPage& page, bool color, bool per_token);
std::string to_html(const InspectPage& page);

}  // namespace wmtp::cli
