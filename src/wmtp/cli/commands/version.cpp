#include <fmt/format.h>

#include <iostream>

#include "wmtp/cli/build_info.h"
#include "wmtp/cli/command.h"
#include "wmtp/cli/doctor/gpu_support.h"
#include "wmtp/cli/versions.h"
#include "wmtp/core/failpoint.h"

namespace wmtp::cli {
namespace {

int show_versions(const Session& session) {
  const Versions found = find_versions();
  if (session.json) {
    emit_json("result", {{"version", kVersion},
                         {"commit", kCommit},
                         {"compiler", kCompiler},
                         {"build_type", kBuildType},
                         {"libtorch", found.libtorch_found},
                         {"libtorch_built", found.libtorch_built},
                         {"cuda_plugin_built", found.plugin_built},
                         {"cuda_plugin_loaded", found.plugin_loaded},
                         {"cuda", found.plugin_note},
                         {"gpu_support", supported_gpus_json()},
                         {"features", {{"failpoints", failpoint::kCompiledIn}}}});
    return 0;
  }
  const auto row = [](std::string_view name, const std::string& value) {
    std::cout << fmt::format("{:<12} {}\n", name, value);
  };
  row("wmtp", fmt::format("{} (commit {})", kVersion, kCommit));
  row("compiler", fmt::format("{}, {}", kCompiler, kBuildType));
  row("LibTorch", fmt::format("{} (built with {})", found.libtorch_found, found.libtorch_built));
  row("CUDA", fmt::format("plugin {}: {}",
                          found.plugin_loaded  ? "loaded"
                          : found.plugin_built ? "built, not loaded"
                                               : "not built",
                          found.plugin_note));
  row("GPUs", supported_gpus_text());
  row("failpoints", failpoint::kCompiledIn ? "on" : "off");
  return 0;
}

}  // namespace

void add_version(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("version", "Show versions of wmtp and what it runs on");
  command->group(kProgramGroup);
  command->footer(
      "  wmtp version\n"
      "  wmtp version --json");
  command->callback([&session] { session.run = [&session] { return show_versions(session); }; });
}

}  // namespace wmtp::cli
