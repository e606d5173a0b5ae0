// `wmtp bench scaling`: predicted steps, beside measured ones or for shapes and links that are not
// here.
#include <iostream>
#include <memory>

#include "wmtp/bench/bench.h"
#include "wmtp/bench/scaling_curves.h"

namespace wmtp::bench {
namespace {

struct ScalingFlags {
  bool predict = false;
  CurveRequest curves;
};

int bench_scaling(const ScalingFlags& flags) {
  std::cout << scaling_curves(flags.curves);
  return 0;
}

}  // namespace

void add_bench_scaling(CLI::App& bench, cli::Session& session) {
  CLI::App* command = bench.add_subcommand("scaling", "Predicted steps beside measured ones");
  command->footer(
      "  wmtp bench scaling --predict\n"
      "  wmtp bench scaling --predict --shape 70B --micro-batches 8");
  const auto flags = std::make_shared<ScalingFlags>();
  command->add_flag("--predict", flags->predict, "Tables of known shapes and links; runs nothing");
  command->add_option("--shape", flags->curves.shapes, "0.6B, 6.7B, 70B; several are allowed")
      ->check(CLI::IsMember(scaling_shapes()));
  command->add_option("--micro-batches", flags->curves.micro_batches, "Of a step")
      ->check(CLI::Range(1, 1024));
  command->callback([&session, flags] { session.run = [flags] { return bench_scaling(*flags); }; });
}

}  // namespace wmtp::bench
