#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <memory>

#include "wmtp/cli/commands/data.h"
#include "wmtp/cli/commands/named_tokenizer.h"
#include "wmtp/cli/config_flags.h"
#include "wmtp/cli/pages/inspect_page.h"
#include "wmtp/config/derived.h"
#include "wmtp/core/error.h"
#include "wmtp/data/index/json_scan.h"
#include "wmtp/data/index/line_chunks.h"
#include "wmtp/data/index/row_schema.h"
#include "wmtp/data/options_from_config.h"
#include "wmtp/data/plan/collate.h"
#include "wmtp/data/plan/step_planner.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::cli {
namespace {

using pages::InspectPage;
using pages::show_sequence;
using pages::ShownSequence;

struct DataFlags {
  ConfigFlags config;
  std::string split = "train", html, tokenizer;
  std::vector<std::uint32_t> rows;
  std::int64_t num_samples = -1;
  std::uint64_t epoch = 0;
  std::int64_t step = -1;
  int rank = 0, world_size = 1;
  bool dropped = false, bad = false, stats = false, weights = false;
};

std::string title_of(const data::Corpus& corpus, const data::Sequence& sequence) {
  std::string text = corpus.format() == data::Format::text
                         ? fmt::format("block {}", sequence.sample_id)
                         : corpus.place_of(static_cast<std::uint32_t>(sequence.source));
  text += fmt::format(": {} tokens, prompt {}, targets {}", sequence.length, sequence.prompt_len,
                      data::num_targets(sequence.length, sequence.prompt_len, 1));
  if (sequence.has_reward) text += fmt::format(", reward {}", sequence.reward);
  if (sequence.pair_role != kSingle)
    text += sequence.pair_role == kPositive ? ", positive of a pair" : ", negative of a pair";
  if (sequence.flags & data::kDocTruncated) text += ", truncated";
  if (!(sequence.flags & data::kDocEos)) text += ", no EOS";
  return text;
}

// Rows by number, whether drawn or not.
void show_rows(InspectPage& page, const std::shared_ptr<const data::Corpus>& corpus,
               const std::vector<std::uint32_t>& rows, const tokenizer::Tokenizer& tokenizer) {
  if (corpus->format() == data::Format::text)
    throw Error(ErrorKind::config, "data", "plain text has blocks, not rows", "use --sample N");
  auto list = std::make_shared<data::SampleList>();
  for (const std::uint32_t row : rows) {
    if (row >= corpus->num_rows())
      throw Error(ErrorKind::config, "data",
                  fmt::format("--rows {}: there are {} rows", row, corpus->num_rows()));
    if (corpus->cut(row).length() == 0)
      page.lines.push_back(
          fmt::format("{}: blank, bad, or dropped as too long", corpus->place_of(row)));
    else
      list->rows.push_back(row);
  }
  const data::RowEpoch view(corpus, list, {{0, list->size(), std::nullopt}});
  std::vector<data::Sequence> sequences;
  for (std::uint64_t i = 0; i < list->size(); ++i) view.append_sequences(i, sequences);
  for (const data::Sequence& sequence : sequences)
    page.sequences.push_back(show_sequence(view, sequence, tokenizer, title_of(*corpus, sequence)));
}

void show_samples(InspectPage& page, const data::Dataset& dataset, const DataFlags& flags,
                  const tokenizer::Tokenizer& tokenizer) {
  const auto view = dataset.epoch(flags.epoch);
  std::vector<data::Sequence> sequences;
  const auto count =
      std::min<std::uint64_t>(static_cast<std::uint64_t>(flags.num_samples), view->size());
  for (std::uint64_t place = 0; place < count; ++place) view->append_sequences(place, sequences);
  for (const data::Sequence& sequence : sequences)
    page.sequences.push_back(
        show_sequence(*view, sequence, tokenizer, title_of(dataset.corpus(), sequence)));
}

// How the run takes its samples: by rank --rank of --world-size.
data::TrainPlanner::Run planned_run(const config::Config& config, const DataFlags& flags) {
  if (flags.rank < 0 || flags.rank >= flags.world_size)
    throw Error(ErrorKind::config, "data",
                fmt::format("--rank {}, but --world-size is {}", flags.rank, flags.world_size));
  const config::Training& training = config.training;
  data::TrainPlanner::Run run;
  run.shape = {flags.world_size, flags.rank, static_cast<std::uint32_t>(training.batch_size),
               static_cast<std::uint32_t>(config::accumulation_steps(config, flags.world_size))};
  run.collate = data::collate_options(
      config.dataset, config.runtime.device == config::DeviceChoice::cuda, /*num_heads=*/1);
  run.num_epochs_millionths = data::epochs_in_millionths(training.n_epochs);
  return run;
}

// A micro-batch with the padding that follows each sequence; packed, all of it follows the last.
void show_batch(InspectPage& page, const data::Corpus& corpus, const data::MicroBatchPlan& plan,
                const data::CollateOptions& collate, const tokenizer::Tokenizer& tokenizer) {
  const std::size_t num_tokens = data::num_batch_tokens(plan, collate, corpus.max_length());
  std::size_t filler = num_tokens;
  for (const data::Sequence& sequence : plan.sequences) filler -= sequence.length;
  const std::size_t stride = collate.packing ? 0 : num_tokens / plan.sequences.size();
  const std::string number =
      fmt::format("micro-batch {} of {}", plan.micro_batch + 1, plan.num_micro_batches);
  for (const data::Sequence& sequence : plan.sequences) {
    ShownSequence shown =
        show_sequence(*plan.view, sequence, tokenizer, number + ", " + title_of(corpus, sequence));
    shown.batch = fmt::format("{}: {} sequences, {} tokens, {} of them padding", number,
                              plan.sequences.size(), num_tokens, filler);
    shown.num_padding = collate.packing ? 0 : stride - sequence.length;
    page.sequences.push_back(std::move(shown));
  }
  if (collate.packing) page.sequences.back().num_padding = filler;
}

// What one rank gets in one step of the run, micro-batch by micro-batch.
void show_step(InspectPage& page, const std::shared_ptr<const data::Dataset>& dataset,
               const config::Config& config, const DataFlags& flags,
               const tokenizer::Tokenizer& tokenizer) {
  data::TrainPlanner::Run run = planned_run(config, flags);
  const std::uint64_t g = run.shape.samples_per_step(), n = dataset->size();
  const std::uint64_t per_epoch = (n + g - 1) / g, step = static_cast<std::uint64_t>(flags.step);
  run.epoch = step / per_epoch;
  run.samples_taken = step % per_epoch * g;
  data::TrainPlanner planner(dataset, run);
  data::MicroBatchPlan plan;
  bool any = false;
  while (planner.next(plan) && plan.step == 0) {
    any = true;
    if (plan.sequences.empty())
      page.lines.push_back(fmt::format("micro-batch {}: empty", plan.micro_batch));
    else
      show_batch(page, dataset->corpus(), plan, run.collate, tokenizer);
    if (plan.micro_batch == 0)
      page.lines.push_back(
          fmt::format("step {} (epoch {}): {} sequences, {} targets of head 1 over all ranks", step,
                      plan.epoch, plan.step_sequences, plan.step_head_targets[0]));
  }
  if (!any)
    throw Error(ErrorKind::config, "data",
                fmt::format("--step {}: the run ends before", flags.step));
}

void show_figures(InspectPage& page, const std::shared_ptr<const data::Dataset>& dataset,
                  const config::Config& config, const DataFlags& flags, data::Split split) {
  page.summary = data::summarize(*dataset);
  if (split == data::Split::validation) return;
  const data::TrainPlanner::Run run = planned_run(config, flags);
  page.outlook =
      data::look_ahead(dataset, *page.summary,
                       {run.shape,
                        run.collate,
                        {run.num_epochs_millionths, run.shape.samples_per_step(),
                         static_cast<std::uint64_t>(config.training.max_steps.value_or(0))}});
}

void list_bad(InspectPage& page, const data::Corpus& corpus) {
  for (const auto& file : corpus.files()) {
    if (!file->index) continue;
    data::LineChunkSource source(file->path, corpus.options().bad_lines.max_line_bytes);
    data::RowParser parser;
    data::LineChunk chunk;
    std::uint64_t row = 0;
    while (source.next(chunk)) {
      if (chunk.overlong_bytes > 0) {
        page.lines.push_back(fmt::format("{}:{}:1: the line has {} bytes", file->path.string(),
                                         ++row, chunk.overlong_bytes));
        continue;
      }
      data::for_each_line(chunk, [&](const data::Line& line) {
        const std::uint64_t number = row++;
        data::Row parsed;
        if (!(file->index->flags()[number] & data::kRowBad)) return;
        auto bad = parser.parse(line, parsed);
        if (!bad) return;
        bad->row = number;
        page.lines.push_back(data::format_bad_line(file->path.string(), *bad));
      });
    }
  }
}

nlohmann::ordered_json json_of(const InspectPage& page) {
  std::vector<std::string> lines = pages::figure_lines(page);
  lines.insert(lines.end(), page.lines.begin(), page.lines.end());
  nlohmann::ordered_json fields{{"lines", lines}, {"stats", nullptr}}, sequences;
  if (page.summary) fields["stats"] = data::to_json(*page.summary);
  if (page.outlook) fields["outlook"] = data::to_json(*page.outlook);
  sequences = nlohmann::ordered_json::array();
  for (const ShownSequence& shown : page.sequences)
    sequences.push_back({{"title", shown.title},
                         {"ids", shown.ids},
                         {"prompt_len", shown.prompt_len},
                         {"padding", shown.num_padding}});
  fields["sequences"] = sequences;
  return fields;
}

int inspect_data(const DataFlags& flags, const Session& session) {
  const config::Config config = flags.config.load().config;
  const data::Split split = flags.split == "train" ? data::Split::train : data::Split::validation;
  if (split == data::Split::validation && !config.dataset.validation)
    throw Error(ErrorKind::config, "data", "dataset.validation is not set");
  const auto tokenizer =
      flags.tokenizer.empty() ? policy_tokenizer(config) : open_tokenizer(flags.tokenizer);
  const auto corpus = std::make_shared<const data::Corpus>(
      data::dataset_options(config, split), *tokenizer, config.data_sampling.use_length_balanced);
  InspectPage page;
  page.per_token = flags.weights;
  page.heading = fmt::format("{} data of {}", flags.split, config.experiment.name);
  std::shared_ptr<const data::Dataset> dataset;
  const bool nothing_named =
      flags.rows.empty() && flags.num_samples < 0 && flags.step < 0 && !flags.dropped && !flags.bad;
  if (flags.stats || flags.num_samples >= 0 || flags.step >= 0 || nothing_named) {
    dataset = std::make_shared<const data::Dataset>(corpus, config.data_sampling, split);
    if (flags.stats || nothing_named) show_figures(page, dataset, config, flags, split);
  }
  if (flags.dropped)
    for (const std::uint32_t row : corpus->rows_without_target())
      page.lines.push_back(fmt::format("{}: no target within {} tokens", corpus->place_of(row),
                                       corpus->max_length()));
  if (flags.bad) list_bad(page, *corpus);
  if (!flags.rows.empty()) show_rows(page, corpus, flags.rows, *tokenizer);
  if (flags.step >= 0) show_step(page, dataset, config, flags, *tokenizer);
  DataFlags samples = flags;
  if (nothing_named) samples.num_samples = 1;
  if (samples.num_samples > 0) show_samples(page, *dataset, samples, *tokenizer);
  if (!flags.html.empty())
    storage::write_file_atomically(flags.html, pages::to_html(page), storage::AtomicFile::kPublic);
  if (session.json)
    emit_json("result", json_of(page));
  else
    std::cout << pages::to_text(page, session.color_on(STDOUT_FILENO));
  return 0;
}

}  // namespace

void add_data_inspect(CLI::App& data, Session& session) {
  const auto flags = std::make_shared<DataFlags>();
  CLI::App* command =
      data.add_subcommand("inspect", "Show samples as the model gets them, targets marked");
  flags->config.add_to(*command);
  command->add_option("--tokenizer", flags->tokenizer, "Instead of the model's");
  command->add_option("--split", flags->split, "Which files")
      ->check(CLI::IsMember({"train", "validation"}));
  command->add_option("--rows", flags->rows, "Row numbers from 0, over all files")->delimiter(',');
  command->add_option("--sample", flags->num_samples, "The first N samples of the epoch")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--epoch", flags->epoch, "Whose order");
  command->add_option("--step", flags->step, "What --rank gets in this step, from 0");
  command->add_option("--rank", flags->rank, "Of --world-size");
  command->add_option("--world-size", flags->world_size, "Number of ranks")
      ->check(CLI::PositiveNumber);
  command->add_flag("--dropped", flags->dropped, "List rows without a target");
  command->add_flag("--bad", flags->bad, "List bad lines");
  command->add_flag("--stats", flags->stats, "Counts, histograms, lengths");
  command->add_flag("--weights", flags->weights, "One token a line with its target mark");
  command->add_option("--html", flags->html,
                      "Also write a page: lengths, padding, cuts, difficulty over time, tokens");
  command->footer(
      "  wmtp data inspect --config run.yaml --sample 3\n"
      "  wmtp data inspect --config run.yaml --stats --html data.html\n"
      "  wmtp data inspect --config run.yaml --step 10 --rank 1 --world-size 4");
  command->callback([flags, &session] {
    session.run = [flags, &session] { return inspect_data(*flags, session); };
  });
}

}  // namespace wmtp::cli
