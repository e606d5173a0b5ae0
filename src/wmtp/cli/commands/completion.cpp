#include <fmt/format.h>

#include <iostream>

#include "wmtp/cli/command.h"
#include "wmtp/cli/manual/man_page.h"
#include "wmtp/cli/manual/shell_scripts.h"
#include "wmtp/core/error.h"

namespace wmtp::cli {
namespace {

struct CompletionFlags {
  std::string form, out;
};

int write_pages(const CLI::App& app, const Session& session, const std::string& out) {
  if (out.empty())
    throw Error(ErrorKind::config, "completion", "manual pages are a file for each command",
                "name their folder: wmtp completion man --out DIR");
  const auto files = write_man_pages(app, out);
  if (session.json)
    emit_json("result", {{"folder", out}, {"pages", files.size()}});
  else
    std::cout << fmt::format("{} pages in {}\n", files.size(), out);
  return 0;
}

int write_completion(const CLI::App& app, const Session& session, const CompletionFlags& flags) {
  if (flags.form == "man") return write_pages(app, session, flags.out);
  if (!flags.out.empty())
    throw Error(ErrorKind::config, "completion",
                fmt::format("--out is for man; the script for {} goes to stdout", flags.form),
                fmt::format("wmtp completion {} > FILE", flags.form));
  std::cout << (flags.form == "bash"  ? bash_script(app)
                : flags.form == "zsh" ? zsh_script(app)
                                      : fish_script(app));
  return 0;
}

}  // namespace

void add_completion(CLI::App& app, Session& session) {
  CLI::App* command =
      app.add_subcommand("completion", "Print a completion script for a shell, or write man pages");
  command->group(kProgramGroup);
  command->footer(
      "  wmtp completion bash > ~/.local/share/bash-completion/completions/wmtp\n"
      "  wmtp completion fish > ~/.config/fish/completions/wmtp.fish\n"
      "  wmtp completion man --out ~/.local/share/man/man1");
  const auto flags = std::make_shared<CompletionFlags>();
  command->add_option("form", flags->form, "Which shell; man: a manual page for each command")
      ->type_name("bash|zsh|fish|man")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish", "man"}));
  command->add_option("--out", flags->out, "man: the folder of the pages")->type_name("DIR");
  command->callback([&app, &session, flags] {
    session.run = [&app, &session, flags] { return write_completion(app, session, *flags); };
  });
}

}  // namespace wmtp::cli
