#include "wmtp/cli/pages/curriculum_html.h"

#include <fmt/format.h>

#include "wmtp/cli/pages/bars.h"
#include "wmtp/cli/pages/page.h"

namespace wmtp::cli::pages {
namespace {

// A phase may begin and end within a step: `places` into the epoch from its step on.
double exact_step(std::uint64_t step, std::uint64_t places, std::uint64_t samples_per_step) {
  return static_cast<double>(step) +
         static_cast<double>(places) / static_cast<double>(samples_per_step);
}

std::string drawing(const data::DrawnPhases& drawn, std::uint64_t width) {
  ColumnChart chart{"samples by difficulty bin over the steps", "step", drawn.bins, {}, true};
  for (const data::DrawnPhase& phase : drawn.phases)
    chart.columns.push_back(
        {exact_step(phase.first_step, phase.first_place % width, width),
         exact_step(phase.last_step, (phase.first_place + phase.num_samples - 1) % width + 1,
                    width),
         phase.drawn,
         fmt::format("epoch {}, steps {} to {}", phase.epoch, phase.first_step, phase.last_step)});
  return to_svg(chart);
}

std::string table(const data::DrawnPhases& drawn) {
  std::vector<std::string> header{"epoch", "steps", "samples"};
  header.insert(header.end(), drawn.bins.begin(), drawn.bins.end());
  std::vector<std::vector<std::string>> rows;
  for (const data::DrawnPhase& phase : drawn.phases) {
    std::vector<std::string> row{std::to_string(phase.epoch),
                                 fmt::format("{} to {}", phase.first_step, phase.last_step),
                                 std::to_string(phase.num_samples)};
    for (const std::uint64_t count : phase.drawn) row.push_back(std::to_string(count));
    rows.push_back(std::move(row));
  }
  return table_html(header, rows);
}

}  // namespace

std::string curriculum_html(const data::DataOutlook& outlook) {
  const data::DrawnPhases& drawn = outlook.phases;
  if (drawn.phases.empty()) return "";
  std::string out = "<div class=\"side\">" +
                    panel("Share of each bin", drawing(drawn, outlook.shape.samples_per_step())) +
                    panel("Samples drawn", table(drawn)) + "</div>";
  out +=
      "<p class=\"note\">Counted from the samples that are drawn; steps are those of --step, "
      "from 0.";
  if (drawn.phases.back().last_step + 1 < outlook.num_steps)
    out += fmt::format(" Up to step {}, the last, the mix stays that of epoch {}.",
                       outlook.num_steps - 1, drawn.num_epochs - 1);
  return out + "</p>\n";
}

}  // namespace wmtp::cli::pages
