// How samples look: coloured text for terminals, a self-contained page for browsers.
#include <fmt/format.h>

#include <algorithm>

#include "wmtp/cli/commands/data.h"
#include "wmtp/tokenizer/stream_decoder.h"
#include "wmtp/tracking/escaped_text.h"

namespace wmtp::cli {
namespace {

using tracking::escape_html;
using tracking::visible;

constexpr const char *kPromptColor = "\x1b[2m", *kTargetColor = "\x1b[32m", *kReset = "\x1b[0m";

std::string histogram_svg(const InspectPage& page) {
  const std::uint64_t highest = *std::max_element(page.histogram.begin(), page.histogram.end());
  std::string svg = "<svg width=\"640\" height=\"160\" role=\"img\" aria-label=\"lengths\">";
  const double width = 600.0 / static_cast<double>(page.histogram.size());
  for (std::size_t i = 0; i < page.histogram.size(); ++i) {
    const double height = highest == 0 ? 0
                                       : 120.0 * static_cast<double>(page.histogram[i]) /
                                             static_cast<double>(highest);
    const std::uint64_t low = i * (page.longest + 1) / page.histogram.size();
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"><title>from {} tokens: "
        "{}</title></rect>",
        20 + static_cast<double>(i) * width, 130 - height, width - 2, height, low,
        page.histogram[i]);
  }
  return svg +
         fmt::format(
             "<text x=\"20\" y=\"150\">0</text><text x=\"560\" y=\"150\">{} tokens</text></svg>",
             page.longest);
}

std::string histogram_text(const InspectPage& page) {
  std::string out;
  const std::uint64_t highest =
      std::max<std::uint64_t>(1, *std::max_element(page.histogram.begin(), page.histogram.end()));
  for (std::size_t i = 0; i < page.histogram.size(); ++i)
    out += fmt::format(
        "{:>7} {:>8} {}\n", i * (page.longest + 1) / page.histogram.size(), page.histogram[i],
        std::string(static_cast<std::size_t>(50 * page.histogram[i] / highest), '#'));
  return out;
}

constexpr const char* kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 "
    "1em;color:#222;background:#fff}"
    "pre{white-space:pre-wrap;border:1px solid #ccc;border-radius:6px;padding:.8em;font:13px/1.7 "
    "monospace}"
    "pre span{border-right:1px solid #ddd}.p{color:#777}.t{background:#d8f3dc;color:#123}"
    "rect{fill:#2d6a4f}svg text{font-size:12px;fill:#555}h2{font-size:1.05em}"
    "@media(prefers-color-scheme:dark){body{background:#16181d;color:#ddd}.p{color:#999}.t{"
    "background:#1b4332;color:#dfe}"
    "pre,pre span{border-color:#444}rect{fill:#74c69d}svg text{fill:#aaa}}";

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

std::string to_text(const InspectPage& page, bool color, bool per_token) {
  std::string out = page.heading.empty() ? "" : page.heading + "\n";
  for (const std::string& line : page.lines) out += line + "\n";
  if (!page.histogram.empty()) out += "lengths in tokens: from, count\n" + histogram_text(page);
  for (const ShownSequence& sequence : page.sequences) {
    out += fmt::format("\n--- {}\n", sequence.title);
    for (std::size_t i = 0; i < sequence.ids.size(); ++i) {
      const bool target = i >= sequence.first_target();
      if (per_token) {
        out += fmt::format("{:>6} {:>7} {} {}\n", i, sequence.ids[i],
                           target ? "target 1" : "       .", visible(sequence.pieces[i]));
        continue;
      }
      if (color)
        out += std::string(target ? kTargetColor : kPromptColor) + sequence.pieces[i] + kReset;
      else
        out += (i == sequence.first_target() ? ">>" : "") + sequence.pieces[i];
    }
    if (!color && !per_token) out += sequence.first_target() < sequence.ids.size() ? "<<" : ">><<";
    out += "\n";
  }
  return out;
}

std::string to_html(const InspectPage& page) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>{0}</title><style>{1}</style></head><body><h1>{0}</"
      "h1>\n",
      escape_html(page.heading.empty() ? "wmtp data" : page.heading), kStyle);
  if (!page.lines.empty()) {
    out += "<ul>";
    for (const std::string& line : page.lines) out += "<li>" + escape_html(line) + "</li>\n";
    out += "</ul>";
  }
  if (!page.histogram.empty()) out += "<h2>Lengths</h2>" + histogram_svg(page);
  for (const ShownSequence& sequence : page.sequences) {
    out += fmt::format("<h2>{}</h2><pre>", escape_html(sequence.title));
    for (std::size_t i = 0; i < sequence.ids.size(); ++i)
      out += fmt::format("<span class=\"{}\" title=\"{}: id {}{}\">{}</span>",
                         i < sequence.first_target() ? "p" : "t", i, sequence.ids[i],
                         i < sequence.first_target() ? "" : ", target",
                         escape_html(sequence.pieces[i]));
    out += "</pre>\n";
  }
  return out + "</body></html>\n";
}

}  // namespace wmtp::cli
