#include "wmtp/tracking/run_files.h"

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
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

RunFiles::RunFiles(std::filesystem::path folder) : folder_(std::move(folder)) {
  // What stands in the way of files that grow is refused before the run; what comes later is a
  // warning.
  std::error_code ignored;
  for (const char* name : {kSamplesFile, kHistogramsFile})
    if (std::filesystem::exists(std::filesystem::symlink_status(folder_ / name, ignored)))
      AppendFile(folder_ / name);
}

AppendFile* RunFiles::opened(Growing& file, const char* name) {
  if (!file.lines && !file.is_refused) {
    try {
      file.lines.emplace(folder_ / name);
    } catch (const Error& error) {
      file.is_refused = true;
      log::warn("tracking", "{}; the run goes on without it", error.fact());
    }
  }
  return file.lines ? &*file.lines : nullptr;
}

void RunFiles::sample(const DecodedSample& sample) {
  AppendFile* const file = opened(samples_, kSamplesFile);
  if (!file) return;
  OrderedJson tokens = OrderedJson::array();
  for (const SampleToken& token : sample.tokens) tokens.push_back(token_json(token));
  OrderedJson line{{"step", sample.step}, {"stage", sample.stage}};
  if (!sample.split.empty()) line["split"] = sample.split;
  if (sample.id) line["id"] = *sample.id;
  if (sample.correct) line["correct"] = *sample.correct;
  line["tokens"] = std::move(tokens);
  file->line(line);
}

void RunFiles::histogram(const Histogram& histogram) {
  if (AppendFile* const file = opened(histograms_, kHistogramsFile))
    file->line({{"step", histogram.step},
                {"name", histogram.name},
                {"edges", histogram.edges},
                {"counts", histogram.counts}});
}

void RunFiles::environment(const OrderedJson& facts) const {
  write_object(folder_ / kEnvironmentFile, facts);
}

void RunFiles::finished(const RunSummary& summary) {
  const auto path = folder_ / kSummaryFile;
  std::error_code ignored;
  if (!summary.has_trained && std::filesystem::exists(path, ignored)) return;
  try {
    write_object(path, tracking::to_json(summary));
  } catch (const Error& error) {
    log::warn("tracking", "how the run went is not written down: {}", error.fact());
  }
}

}  // namespace wmtp::tracking
