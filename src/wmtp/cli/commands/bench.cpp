#include "wmtp/cli/commands/bench.h"

namespace wmtp::cli {

void add_bench(CLI::App& app, Session& session) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure this machine with random weights and data");
  bench->group(kProgramGroup);
  bench->require_subcommand(1);
  add_bench_step(*bench, session);
  add_bench_comm(*bench, session);
  add_bench_data(*bench, session);
  add_bench_kernels(*bench, session);
  add_bench_load(*bench, session);
  add_bench_runtime(*bench, session);
  add_bench_checkpoint(*bench, session);
}

}  // namespace wmtp::cli
