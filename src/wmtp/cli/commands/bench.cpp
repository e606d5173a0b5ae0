#include "wmtp/cli/commands/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "wmtp/cli/command.h"
#include "wmtp/core/error.h"

namespace wmtp::cli {
namespace {

std::filesystem::path bench_program() {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path() / "wmtp-bench";
}

}  // namespace

void become_bench(char** argv) {
  ::execv(bench_program().c_str(), argv);
}

void add_bench(CLI::App& app, Session& session) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure this machine with random weights and data");
  bench->group(kProgramGroup);
  bench->footer(
      "  wmtp bench step --preset small --batch 4 --seq 256\n"
      "  wmtp launch --nproc 2 -- bench comm --max-mib 64\n"
      "  wmtp bench --help");
  bench->prefix_command();  // its words are wmtp-bench's
  bench->set_help_flag();
  bench->callback([&session] {
    session.run = []() -> int {
      throw Error(ErrorKind::config, "bench",
                  fmt::format("there is no {}", bench_program().string()),
                  "the benchmarks are a program of their own: make build makes it");
    };
  });
}

}  // namespace wmtp::cli
