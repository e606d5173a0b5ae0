#include "wmtp/tracking/run_files.h"

#include "wmtp/storage/atomic_file.h"

namespace wmtp::tracking {
namespace {

OrderedJson token_json(const SampleToken& token) {
  OrderedJson line{{"t", token.text},
                   {"m", token.is_target ? 1 : 0},
                   {"w", json_number(token.weight)},
                   {"v", nullptr},
                   {"sel", nullptr}};
  if (token.value) line["v"] = json_number(*token.value);
  if (!token.selected.empty()) line["sel"] = token.selected;
  return line;
}

void write_object(const std::filesystem::path& path, const OrderedJson& object) {
  storage::write_file_atomically(path,
                                 object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

RunFiles::RunFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

void RunFiles::sample(const DecodedSample& sample) {
  if (!samples_) samples_.emplace(folder_ / kSamplesFile);
  OrderedJson tokens = OrderedJson::array();
  for (const SampleToken& token : sample.tokens) tokens.push_back(token_json(token));
  samples_->line({{"step", sample.step}, {"stage", sample.stage}, {"tokens", std::move(tokens)}});
}

void RunFiles::histogram(const Histogram& histogram) {
  if (!histograms_) histograms_.emplace(folder_ / kHistogramsFile);
  histograms_->line({{"step", histogram.step},
                     {"name", histogram.name},
                     {"edges", histogram.edges},
                     {"counts", histogram.counts}});
}

void RunFiles::environment(const OrderedJson& facts) const {
  write_object(folder_ / kEnvironmentFile, facts);
}

void RunFiles::finished(const RunSummary& summary) {
  const auto path = folder_ / kSummaryFile;
  if (!summary.has_trained && std::filesystem::exists(path)) return;
  write_object(path, tracking::to_json(summary));
}

}  // namespace wmtp::tracking
