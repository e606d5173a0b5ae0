#include "wmtp/data/summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/data/tokens/truncation.h"
#include "wmtp/tokenizer/stream_decoder.h"

namespace wmtp::data {
namespace {

LengthStats length_stats(std::vector<std::uint32_t>& lengths) {
  LengthStats stats;
  if (lengths.empty()) return stats;
  std::sort(lengths.begin(), lengths.end());
  const auto at = [&](double share) {
    return lengths[std::min(lengths.size() - 1,
                            static_cast<std::size_t>(share * static_cast<double>(lengths.size())))];
  };
  stats.p50 = at(0.5), stats.p90 = at(0.9), stats.p99 = at(0.99), stats.max = lengths.back();
  stats.histogram.resize(kHistogramBins);
  for (std::uint32_t length : lengths) {
    stats.total_tokens += length;
    ++stats.histogram[std::min<std::size_t>(
        kHistogramBins - 1, std::size_t{length} * kHistogramBins / (stats.max + 1))];
  }
  return stats;
}

}  // namespace

DataSummary summarize(const Dataset& dataset) {
  DataSummary out;
  const Corpus& corpus = dataset.corpus();
  for (const auto& file : corpus.files()) out.files.push_back(file->path.string());
  out.format = config::name_of(corpus.format());
  out.num_samples = dataset.size();
  out.counters = corpus.counters();
  out.draw = dataset.report();
  out.num_tail_tokens = dataset.num_tail_tokens();
  const auto view = dataset.epoch(0);
  std::vector<std::uint32_t> lengths;
  std::vector<Sequence> sequences;
  std::uint64_t targets = 0;
  for (std::uint64_t place = 0; place < view->size(); ++place) {
    sequences.clear();
    view->append_sequences(place, sequences);
    for (const Sequence& sequence : sequences) {
      lengths.push_back(sequence.length);
      targets += static_cast<std::uint64_t>(num_targets(sequence.length, sequence.prompt_len, 1));
      if (corpus.format() == Format::text) continue;
      const auto row = static_cast<std::uint32_t>(sequence.source);
      ++(corpus.table().is_correct(row) ? out.num_correct : out.num_incorrect);
      if (corpus.table().difficulty(row) != kNoDifficulty)
        ++out.difficulties[corpus.table().difficulty(row)];
    }
  }
  out.lengths = length_stats(lengths);
  out.lengths.total_targets = targets;
  return out;
}

OrderedJson to_json(const DataSummary& summary) {
  const CorpusCounters& c = summary.counters;
  OrderedJson bad = OrderedJson::object(), difficulties = OrderedJson::object(),
              bins = OrderedJson::array();
  for (std::size_t i = 0; i < kNumBadCauses; ++i)
    if (c.bad_counts[i] > 0) bad[std::string(name_of(static_cast<BadCause>(i)))] = c.bad_counts[i];
  for (const auto& [difficulty, count] : summary.difficulties)
    difficulties[std::to_string(difficulty)] = count;
  for (const BinReport& bin : summary.draw.bins)
    bins.push_back({{"name", bin.name},
                    {"candidates", bin.num_candidates},
                    {"drawn", bin.quota},
                    {"correct", bin.num_correct},
                    {"incorrect", bin.num_incorrect}});
  return {
      {"files", summary.files},
      {"format", summary.format},
      {"samples", summary.num_samples},
      {"rows", c.num_rows},
      {"blank_lines", c.num_blank},
      {"bad_lines", c.num_bad},
      {"bad_by_cause", bad},
      {"candidates", c.num_candidates},
      {"rows_without_target", c.num_without_target},
      {"rows_dropped_too_long", c.num_dropped_long},
      {"truncated_rows", {{"correct", c.truncated_rows[1]}, {"incorrect", c.truncated_rows[0]}}},
      {"truncated_tokens",
       {{"correct", c.truncated_tokens[1]}, {"incorrect", c.truncated_tokens[0]}}},
      {"boundary_merges", c.boundary_merges},
      {"empty_documents", c.num_empty_documents},
      {"tail_tokens_dropped", summary.num_tail_tokens},
      {"rows_without_reward", c.num_without_reward},
      {"correct", summary.num_correct},
      {"incorrect", summary.num_incorrect},
      {"difficulties", difficulties},
      {"bins", bins},
      {"lengths",
       {{"p50", summary.lengths.p50},
        {"p90", summary.lengths.p90},
        {"p99", summary.lengths.p99},
        {"max", summary.lengths.max},
        {"tokens", summary.lengths.total_tokens},
        {"targets", summary.lengths.total_targets},
        {"histogram", summary.lengths.histogram}}}};
}

std::vector<std::string> to_lines(const DataSummary& s) {
  const CorpusCounters& c = s.counters;
  std::vector<std::string> lines;
  lines.push_back(fmt::format("files: {} ({})", fmt::join(s.files, ", "), s.format));
  lines.push_back(
      fmt::format("rows: {} ({} blank, {} bad, {} without target, {} dropped as too long), "
                  "candidates: {}, samples: {}",
                  c.num_rows, c.num_blank, c.num_bad, c.num_without_target, c.num_dropped_long,
                  c.num_candidates, s.num_samples));
  if (s.format != "text") {
    lines.push_back(
        fmt::format("truncated rows: {} correct, {} incorrect; tokens lost: {} and {}; tokens "
                    "across the prompt's border: {}",
                    c.truncated_rows[1], c.truncated_rows[0], c.truncated_tokens[1],
                    c.truncated_tokens[0], c.boundary_merges));
    lines.push_back(
        fmt::format("drawn: {} correct, {} incorrect sequences", s.num_correct, s.num_incorrect));
    for (const BinReport& bin : s.draw.bins)
      lines.push_back(fmt::format("bin {}: {} candidates, {} drawn ({} correct, {} incorrect)",
                                  bin.name, bin.num_candidates, bin.quota, bin.num_correct,
                                  bin.num_incorrect));
    if (s.draw.num_without_bin > 0)
      lines.push_back(fmt::format("in no difficulty bin: {} candidates", s.draw.num_without_bin));
    if (s.draw.num_below_length_bins > 0)
      lines.push_back(
          fmt::format("below the first length bin: {} rows", s.draw.num_below_length_bins));
    std::string text;
    for (const auto& [difficulty, count] : s.difficulties)
      text += fmt::format(" {}:{}", difficulty, count);
    if (!text.empty()) lines.push_back("difficulties:" + text);
  } else {
    lines.push_back(
        fmt::format("empty documents skipped: {}, tokens of the last incomplete block dropped: {}",
                    c.num_empty_documents, s.num_tail_tokens));
  }
  lines.push_back(
      fmt::format("lengths in tokens: p50 {}, p90 {}, p99 {}, max {}; {} tokens, {} targets",
                  s.lengths.p50, s.lengths.p90, s.lengths.p99, s.lengths.max,
                  s.lengths.total_tokens, s.lengths.total_targets));
  return lines;
}

std::string marked_text(const EpochView& view, const Sequence& sequence,
                        const tokenizer::Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids(sequence.length);
  view.copy_tokens(sequence, ids);
  const std::vector<std::string> texts = tokenizer::token_texts(tokenizer, ids);
  std::string marked;
  for (std::size_t i = 0; i < texts.size(); ++i)
    marked += (i == sequence.prompt_len ? ">>" : "") + texts[i];
  return marked + (sequence.prompt_len < texts.size() ? "<<" : ">><<");
}

}  // namespace wmtp::data
