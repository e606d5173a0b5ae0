#include "wmtp/bench/bench.h"

#include <algorithm>

namespace wmtp::bench {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void add_bench(CLI::App& app, cli::Session& session) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure this machine with random weights and data");
  bench->group(cli::kProgramGroup);
  bench->footer(
      "  wmtp bench step --preset small --batch 4 --seq 256\n"
      "  wmtp launch --nproc 2 -- bench comm --max-mib 64\n"
      "  wmtp bench data --megabytes 64");
  bench->require_subcommand(1);
  add_bench_step(*bench, session);
  add_bench_comm(*bench, session);
  add_bench_data(*bench, session);
  add_bench_kernels(*bench, session);
  add_bench_load(*bench, session);
  add_bench_runtime(*bench, session);
  add_bench_scaling(*bench, session);
  add_bench_overlap(*bench, session);
  add_bench_checkpoint(*bench, session);
}

}  // namespace wmtp::bench
