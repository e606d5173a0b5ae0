#include "wmtp/data/outlook/data_outlook.h"

#include <fmt/format.h>

namespace wmtp::data {
namespace {

double percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

OrderedJson json_of(const LaidOut& laid_out, std::uint64_t num_tokens) {
  return {{"micro_batches", laid_out.num_batches},
          {"tokens", laid_out.num_tokens},
          {"padding", laid_out.num_tokens - num_tokens},
          {"largest", laid_out.largest}};
}

OrderedJson json_of(const DrawnPhases& drawn) {
  OrderedJson phases = OrderedJson::array();
  for (const DrawnPhase& phase : drawn.phases)
    phases.push_back({{"epoch", phase.epoch},
                      {"first_step", phase.first_step},
                      {"last_step", phase.last_step},
                      {"samples", phase.num_samples},
                      {"drawn", phase.drawn},
                      {"correct", phase.num_correct}});
  return {{"bins", drawn.bins}, {"phases", phases}, {"epochs", drawn.num_epochs}};
}

std::string padding_line(const DataOutlook& o) {
  const LaidOut &packed = o.batches.packed, &padded = o.batches.padded;
  return fmt::format(
      "batches of {} of an epoch, {} rank{}: padded to rows {} tokens, packed {}, which saves "
      "{:.1f} % (dataset.packing: {})",
      o.shape.batch_size, o.shape.world_size, o.shape.world_size == 1 ? "" : "s", padded.num_tokens,
      packed.num_tokens,
      padded.num_tokens > packed.num_tokens
          ? percent(padded.num_tokens - packed.num_tokens, padded.num_tokens)
          : 0.0,
      o.packing);
}

std::string phase_line(const DrawnPhase& phase, const std::vector<std::string>& bins) {
  std::string drawn;
  for (std::size_t bin = 0; bin < bins.size(); ++bin)
    drawn += fmt::format(", {} {}", bins[bin], phase.drawn[bin]);
  return fmt::format("epoch {}, steps {} to {}: {} samples{}", phase.epoch, phase.first_step,
                     phase.last_step, phase.num_samples, drawn);
}

}  // namespace

DataOutlook look_ahead(const std::shared_ptr<const Dataset>& dataset, const DataSummary& summary,
                       const OutlookRequest& request) {
  const Corpus& corpus = dataset->corpus();
  DataOutlook out;
  out.shape = request.shape;
  out.packing = request.collate.packing;
  out.max_length = corpus.max_length();
  out.truncate = corpus.options().truncate;
  out.batches = epoch_batches(dataset, request.shape, request.collate);
  out.num_steps = num_steps(request.length, dataset->size());
  out.phases = drawn_phases(*dataset, request.length);
  out.repeated = repeated_rows(corpus);
  if (out.repeated && out.repeated->first)
    out.first_repeated = fmt::format("{} as {}", corpus.place_of(out.repeated->first->first),
                                     corpus.place_of(out.repeated->first->second));
  out.num_tokens = summary.lengths.total_tokens;
  out.num_targets = summary.lengths.total_targets;
  return out;
}

OrderedJson to_json(const DataOutlook& o) {
  OrderedJson fields{{"steps", o.num_steps},
                     {"ranks", o.shape.world_size},
                     {"samples_per_step", o.shape.samples_per_step()},
                     {"packing", o.packing},
                     {"max_length", o.max_length},
                     {"truncate", config::name_of(o.truncate)},
                     {"targets", o.num_targets},
                     {"prompt", o.num_prompt()},
                     {"packed", json_of(o.batches.packed, o.num_tokens)},
                     {"padded", json_of(o.batches.padded, o.num_tokens)},
                     {"repeated_rows", nullptr},
                     {"curriculum", json_of(o.phases)}};
  if (o.repeated) fields["repeated_rows"] = o.repeated->num_repeated;
  return fields;
}

std::vector<std::string> to_lines(const DataOutlook& o) {
  const std::uint64_t computed = o.laid_out().num_tokens;
  std::vector<std::string> lines{
      fmt::format("an epoch computes {} tokens: {:.1f} % targets, {:.1f} % prompt, {:.1f} % "
                  "padding; the run has {} steps of {} samples",
                  computed, percent(o.num_targets, computed), percent(o.num_prompt(), computed),
                  percent(o.num_padding(), computed), o.num_steps, o.shape.samples_per_step()),
      padding_line(o)};
  if (o.repeated)
    lines.push_back(fmt::format("repeated rows: {} of {} have the tokens of an earlier one{}",
                                o.repeated->num_repeated, o.repeated->num_rows,
                                o.first_repeated.empty() ? "" : ", the first " + o.first_repeated));
  for (const DrawnPhase& phase : o.phases.phases) lines.push_back(phase_line(phase, o.phases.bins));
  return lines;
}

}  // namespace wmtp::data
