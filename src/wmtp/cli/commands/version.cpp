#include <torch/headeronly/version.h>

#include <iostream>

#include "wmtp/cli/command.h"

namespace wmtp::cli {

void add_version(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("version", "Show the versions of wmtp and of what it runs on");
  command->callback([&session] {
    session.run = [&session] {
      if (session.json)
        emit_json("result", {{"wmtp", "0.1.0"}, {"libtorch", TORCH_VERSION}});
      else
        std::cout << "wmtp 0.1.0, LibTorch " << TORCH_VERSION << "\n";
      return 0;
    };
  });
}

}  // namespace wmtp::cli
