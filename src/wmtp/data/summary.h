// What is said once about the data of a run, before its first step.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "wmtp/core/json.h"
#include "wmtp/data/plan/dataset.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::data {

struct LengthStats {
  std::uint32_t p50 = 0, p90 = 0, p99 = 0, max = 0;
  std::uint64_t total_tokens = 0, total_targets = 0;
  std::vector<std::uint64_t> histogram;  // kHistogramBins equal bins up to max
};
constexpr std::size_t kHistogramBins = 20;

struct DataSummary {
  std::vector<std::string> files;
  std::string format;
  std::uint64_t num_samples = 0;
  CorpusCounters counters;
  DrawReport draw;
  std::uint64_t num_tail_tokens = 0;
  LengthStats lengths;                                 // of the sequences of epoch 0
  std::uint64_t num_correct = 0, num_incorrect = 0;    // sequences drawn
  std::map<std::int16_t, std::uint64_t> difficulties;  // of the sequences drawn
};

// Reads lengths only, no tokens.
DataSummary summarize(const Dataset& dataset);
OrderedJson to_json(const DataSummary& summary);
std::vector<std::string> to_lines(const DataSummary& summary);

// A sequence as text, its targets between >> and <<.
std::string marked_text(const EpochView& view, const Sequence& sequence,
                        const tokenizer::Tokenizer& tokenizer);

}  // namespace wmtp::data
