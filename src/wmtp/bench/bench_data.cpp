// `wmtp bench data`: reading, indexing, drawing and loading, on files made for it.
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <memory>

#include "wmtp/bench/bench.h"
#include "wmtp/core/error.h"
#include "wmtp/core/rng.h"
#include "wmtp/core/time.h"
#include "wmtp/data/demo_corpus.h"
#include "wmtp/data/index/index_builder.h"
#include "wmtp/data/index/row_schema.h"
#include "wmtp/data/plan/loader.h"
#include "wmtp/data/tokens/cache_builder.h"
#include "wmtp/tensor/host_memory.h"

namespace wmtp::bench {
namespace {

namespace fs = std::filesystem;

struct BenchDataFlags {
  std::size_t megabytes = 256;
  int num_threads = 1;
  int num_repeats = 3;
  std::string folder;
};

void emit(std::string_view what, nlohmann::ordered_json fields) {
  nlohmann::ordered_json line{{"bench", what}};
  line.update(fields);
  line["peak_rss_mib"] = peak_resident_bytes() >> 20;
  cli::emit_json("result", line);
}

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Wall time, and CPU time over all threads: the second holds on a busy machine too.
struct Timing {
  double wall_s = 1e300, cpu_s = 1e300;
};

template <class Work>
Timing best_of(int num_repeats, Work work) {
  Timing best;
  for (int i = 0; i < num_repeats; ++i) {
    const auto start = Clock::now();
    const double cpu = cpu_seconds();
    work();
    best.wall_s = std::min(best.wall_s, seconds_since(start));
    best.cpu_s = std::min(best.cpu_s, cpu_seconds() - cpu);
  }
  return best;
}

// Code-like rows of about 1 KB, `bad_every`-th one bad.
std::uint64_t write_rows(const fs::path& path, std::size_t megabytes, std::size_t bad_every) {
  const auto rows = data::demo_rows(1, 0, 4000);
  std::string block;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    data::DemoRow row = rows[i];
    while (row.output.size() < 700)
      row.output += rows[(i * 7 + row.output.size()) % rows.size()].output;
    block +=
        bad_every > 0 && i % bad_every == 1 ? "{\"instruction\": 7}\n" : data::to_json_line(row);
  }
  std::ofstream file(path, std::ios::binary);
  std::uint64_t written = 0;
  for (; written < megabytes << 20; written += block.size())
    file.write(block.data(), static_cast<std::streamsize>(block.size()));
  if (!file.flush())
    throw Error(ErrorKind::io, "bench", fmt::format("cannot write {}", path.string()));
  return written;
}

void bench_scan(const fs::path& file, std::uint64_t bytes, int num_repeats) {
  std::uint64_t rows = 0, characters = 0;
  const Timing timing = best_of(num_repeats, [&] {
    data::LineChunkSource source(file, std::uint64_t{16} << 20);
    data::RowParser parser;
    data::LineChunk chunk;
    data::Row row;
    rows = characters = 0;
    while (source.next(chunk)) {
      source.done_until(chunk.first_offset);
      data::for_each_line(chunk, [&](const data::Line& line) {
        if (!parser.parse(line, row)) ++rows, characters += row.output.size();
      });
    }
  });
  emit("jsonl_scan", {{"gb_s", static_cast<double>(bytes) / 1e9 / timing.wall_s},
                      {"gb_per_cpu_s", static_cast<double>(bytes) / 1e9 / timing.cpu_s},
                      {"rows", rows},
                      {"output_bytes", characters},
                      {"threads", 1}});
}

void bench_index(const fs::path& folder, const BenchDataFlags& flags) {
  const std::uint64_t bytes = write_rows(folder / "bad.jsonl", flags.megabytes, 100);
  data::IndexRequest request;
  request.file = folder / "bad.jsonl";
  request.index = folder / "bad.widx";
  request.bad_lines = {data::OnBadLine::skip, 0.5, ~std::uint64_t{0}};
  request.num_threads = flags.num_threads;
  data::IndexReport report;
  const Timing timing = best_of(1, [&] { report = data::build_index(request); });
  emit("index", {{"mb_s", static_cast<double>(bytes) / 1e6 / timing.wall_s},
                 {"mb_per_cpu_s", static_cast<double>(bytes) / 1e6 / timing.cpu_s},
                 {"rows", report.num_rows},
                 {"threads", flags.num_threads}});
}

void bench_tokenize_and_load(const fs::path& folder, const BenchDataFlags& flags) {
  data::write_demo_corpus(folder, 1, 4000);
  const auto tokenizer = tokenizer::load_tokenizer(folder);
  write_rows(folder / "load.jsonl", std::min<std::size_t>(flags.megabytes, 64), 0);
  data::DatasetOptions options;
  options.files = {(folder / "load.jsonl").string()};
  options.cache.num_threads = flags.num_threads;
  auto start = Clock::now();
  { const data::Corpus built(options, *tokenizer, false); }
  const double build_seconds = seconds_since(start);
  start = Clock::now();
  const auto corpus = std::make_shared<const data::Corpus>(options, *tokenizer, false);
  const auto dataset =
      std::make_shared<const data::Dataset>(corpus, data::SamplingOptions{}, data::Split::train);
  emit("tokenize", {{"tokens_s", static_cast<double>(corpus->num_tokens()) / build_seconds},
                    {"tokens", corpus->num_tokens()},
                    {"threads", flags.num_threads}});
  for (const int threads : {1, 2}) {
    data::TrainPlanner::Run run;
    run.shape = {1, 0, 16, 1};
    run.collate.num_heads = 4;
    run.collate.pack_multiple = 256;
    run.num_epochs_millionths = 3'000'000;
    data::LoaderOptions loader_options;
    loader_options.collate = run.collate;
    loader_options.num_threads = threads;
    if (threads > 1) start = Clock::now();
    data::Loader loader(std::make_unique<data::TrainPlanner>(dataset, run), loader_options);
    auto batch = loader.next();
    const double first_batch = seconds_since(start);
    std::uint64_t tokens = 0;
    const auto steady = Clock::now();
    const double cpu = cpu_seconds();
    while ((batch = loader.next())) tokens += batch->num_tokens();
    emit("loader", {{"tokens_s", static_cast<double>(tokens) / seconds_since(steady)},
                    {"tokens_per_cpu_s", static_cast<double>(tokens) / (cpu_seconds() - cpu)},
                    {"tokens", tokens},
                    {"first_batch_s", first_batch},
                    {"threads", threads}});
  }
}

void bench_drawing(int num_repeats) {
  constexpr std::uint32_t kRows = 3'200'000, kProblems = 10'000, kPairRows = 400'000;
  std::vector<std::int16_t> difficulty(kRows);
  std::vector<std::uint8_t> flags(kRows);
  std::vector<std::uint32_t> problem(kRows);
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < kProblems; ++i) names.push_back(fmt::format("problem{:06}", i));
  for (std::uint32_t row = 0; row < kRows; ++row) {
    const auto words = philox4x32_10(1, 2, row);
    difficulty[row] = static_cast<std::int16_t>(words[0] % 12);
    flags[row] = words[1] % 2 ? data::kRowCorrect : 0;
    problem[row] = words[2] % kProblems;
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const auto time = [&](std::uint32_t rows, const data::SamplingOptions& options) {
    data::RowTable table;
    data::RowTable::Part part;
    part.num_rows = rows;
    part.difficulty = std::span(difficulty).first(rows);
    part.flags = std::span(flags).first(rows);
    part.problem = std::span(problem).first(rows);
    part.problem_names = views;
    table.add(part);
    table.set_candidates(std::vector<bool>(rows, true));
    return best_of(num_repeats, [&] {
      data::DrawReport report;
      data::draw_samples({table, options, "", static_cast<std::uint64_t>(*options.n_samples), false,
                          options.difficulty_weights},
                         report);
    });
  };
  data::SamplingOptions rows;
  rows.n_samples = 200'000;
  rows.balance_correct = true;
  rows.difficulty_bins = {{"easy", 0, 3}, {"middle", 4, 7}, {"hard", 8, 11}};
  rows.difficulty_weights = {{"easy", 0.5}, {"middle", 0.3}, {"hard", 0.2}};
  const Timing row_time = time(kRows, rows);
  emit("draw_rows", {{"seconds", row_time.wall_s},
                     {"cpu_seconds", row_time.cpu_s},
                     {"drawn", 200'000},
                     {"of", kRows}});
  data::SamplingOptions pairs;
  pairs.n_samples = 100'000;
  pairs.use_pairwise = true;
  const Timing pair_time = time(kPairRows, pairs);
  emit("draw_pairs", {{"seconds", pair_time.wall_s},
                      {"cpu_seconds", pair_time.cpu_s},
                      {"drawn", 100'000},
                      {"problems", kProblems}});
}

int run_bench_data(const BenchDataFlags& flags) {
  const fs::path folder = flags.folder.empty() ? fs::temp_directory_path() /
                                                     fmt::format("wmtp-bench-data-{}", ::getpid())
                                               : fs::path(flags.folder);
  fs::create_directories(folder);
  const std::uint64_t bytes = write_rows(folder / "scan.jsonl", flags.megabytes, 0);
  bench_scan(folder / "scan.jsonl", bytes, flags.num_repeats);
  bench_index(folder, flags);
  bench_tokenize_and_load(folder, flags);
  bench_drawing(flags.num_repeats);
  if (flags.folder.empty()) fs::remove_all(folder);
  return 0;
}

}  // namespace

void add_bench_data(CLI::App& bench, cli::Session& session) {
  const auto flags = std::make_shared<BenchDataFlags>();
  CLI::App* command =
      bench.add_subcommand("data", "Reading, indexing, drawing and loading; one JSON line each");
  command->footer(
      "  wmtp bench data --megabytes 64\n"
      "  wmtp bench data --folder /scratch/rows --threads 4 --repeats 3");
  command->add_option("--megabytes", flags->megabytes, "Size of the generated files")
      ->check(CLI::Range(1, 100000));
  command->add_option("--threads", flags->num_threads, "Of index and tokenize")
      ->check(CLI::PositiveNumber);
  command->add_option("--repeats", flags->num_repeats, "The best of so many")
      ->check(CLI::PositiveNumber);
  command->add_option("--folder", flags->folder,
                      "Keep the files here; otherwise a temporary folder");
  command->callback(
      [flags, &session] { session.run = [flags] { return run_bench_data(*flags); }; });
}

}  // namespace wmtp::bench
