// `wmtp bench`: the command, and its parts, each of which adds its subcommand to the parent.
#pragma once
#include <vector>

#include "wmtp/cli/command.h"

namespace wmtp::bench {

void add_bench(CLI::App& app, cli::Session& session);

void add_bench_checkpoint(CLI::App& bench, cli::Session& session);
void add_bench_comm(CLI::App& bench, cli::Session& session);
void add_bench_data(CLI::App& bench, cli::Session& session);
void add_bench_kernels(CLI::App& bench, cli::Session& session);
void add_bench_load(CLI::App& bench, cli::Session& session);
void add_bench_overlap(CLI::App& bench, cli::Session& session);
void add_bench_runtime(CLI::App& bench, cli::Session& session);
void add_bench_scaling(CLI::App& bench, cli::Session& session);
void add_bench_step(CLI::App& bench, cli::Session& session);

double median(std::vector<double> values);  // REQUIRES at least one

}  // namespace wmtp::bench
