// The parts of `wmtp bench`: each adds its subcommand to the parent.
#pragma once
#include <vector>

#include "wmtp/cli/command.h"

namespace wmtp::cli {

void add_bench_checkpoint(CLI::App& bench, Session& session);
void add_bench_comm(CLI::App& bench, Session& session);
void add_bench_data(CLI::App& bench, Session& session);
void add_bench_kernels(CLI::App& bench, Session& session);
void add_bench_load(CLI::App& bench, Session& session);
void add_bench_runtime(CLI::App& bench, Session& session);
void add_bench_step(CLI::App& bench, Session& session);

double median(std::vector<double> values);  // REQUIRES at least one

}  // namespace wmtp::cli
