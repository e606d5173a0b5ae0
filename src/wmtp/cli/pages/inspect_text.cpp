#include <fmt/format.h>

#include "wmtp/cli/pages/inspect_page.h"
#include "wmtp/tokenizer/stream_decoder.h"
#include "wmtp/tracking/escaped_text.h"

namespace wmtp::cli::pages {
namespace {

constexpr const char *kPromptColor = "\x1b[2m", *kTargetColor = "\x1b[32m", *kReset = "\x1b[0m";
constexpr std::uint32_t kMostHeads = 16;

std::string histogram_text(const data::LengthStats& lengths) {
  const auto& counts = lengths.histogram;
  if (counts.empty()) return "";
  std::string out = "lengths in tokens: from, count\n";
  const std::uint64_t highest =
      std::max<std::uint64_t>(1, *std::max_element(counts.begin(), counts.end()));
  for (std::size_t i = 0; i < counts.size(); ++i)
    out += fmt::format("{:>7} {:>8} {}\n", i * (lengths.max + 1) / counts.size(), counts[i],
                       std::string(static_cast<std::size_t>(50 * counts[i] / highest), '#'));
  return out;
}

std::string sequence_text(const ShownSequence& sequence, bool color, bool per_token) {
  std::string out;
  for (std::size_t i = 0; i < sequence.ids.size(); ++i) {
    const bool target = i >= sequence.first_target();
    if (per_token)
      out += fmt::format("{:>6} {:>7} {} {}\n", i, sequence.ids[i],
                         target ? "target 1" : "       .", tracking::visible(sequence.pieces[i]));
    else if (color)
      out += std::string(target ? kTargetColor : kPromptColor) + sequence.pieces[i] + kReset;
    else
      out += (i == sequence.first_target() ? ">>" : "") + sequence.pieces[i];
  }
  if (!color && !per_token) out += sequence.first_target() < sequence.ids.size() ? "<<" : ">><<";
  if (sequence.num_padding > 0) out += fmt::format(" [{} padding]", sequence.num_padding);
  return out + "\n";
}

}  // namespace

ShownSequence show_sequence(const data::EpochView& view, const data::Sequence& sequence,
                            const tokenizer::Tokenizer& tokenizer, std::string title) {
  ShownSequence shown;
  shown.title = std::move(title);
  shown.ids.resize(sequence.length);
  shown.prompt_len = sequence.prompt_len;
  view.copy_tokens(sequence, shown.ids);
  shown.pieces = tokenizer::token_texts(tokenizer, shown.ids);
  return shown;
}

std::string heads_of_target(std::uint32_t place) {
  if (place == 1) return "head 1";
  return place < kMostHeads ? fmt::format("heads 1 to {}", place) : "all heads";
}

std::vector<std::string> figure_lines(const InspectPage& page) {
  std::vector<std::string> lines;
  if (page.summary) lines = data::to_lines(*page.summary);
  if (page.outlook)
    for (std::string& line : data::to_lines(*page.outlook)) lines.push_back(std::move(line));
  return lines;
}

std::string to_text(const InspectPage& page, bool color) {
  std::string out = page.heading.empty() ? "" : page.heading + "\n";
  for (const std::string& line : figure_lines(page)) out += line + "\n";
  for (const std::string& line : page.lines) out += line + "\n";
  if (page.summary) out += histogram_text(page.summary->lengths);
  std::string batch;
  for (const ShownSequence& sequence : page.sequences) {
    if (sequence.batch != batch) out += "\n=== " + sequence.batch + "\n";
    batch = sequence.batch;
    out +=
        fmt::format("\n--- {}\n{}", sequence.title, sequence_text(sequence, color, page.per_token));
  }
  return out;
}

}  // namespace wmtp::cli::pages
