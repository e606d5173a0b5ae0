#include "wmtp/cli/manual/man_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "wmtp/cli/build_info.h"
#include "wmtp/cli/help.h"
#include "wmtp/core/error.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::cli {
namespace {

struct Status {
  ExitCode code;
  const char* meaning;
};
constexpr Status kStatuses[] = {
    {ExitCode::ok, "done"},
    {ExitCode::numeric, "the numbers of a run broke"},
    {ExitCode::data, "bad data"},
    {ExitCode::internal, "an internal error, or starts in a row that saved nothing"},
    {ExitCode::storage, "storage or a checkpoint is broken"},
    {ExitCode::retry, "try again: a peer is lost, or checkpoints are not up yet"},
    {ExitCode::config, "bad configuration or command line"},
    {ExitCode::preempted_saved, "stopped on request, and saved"},
    {ExitCode::preempted_unsaved, "stopped on request, not saved"},
};

// Text as roff shows it: no escapes or requests in it, and a minus that can be copied.
std::string roff(const std::string& text) {
  std::string out;
  if (text.starts_with('.') || text.starts_with('\'')) out = "\\&";
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string dashed_name(const CLI::App& command) {
  std::string name = full_name(command);
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string reference(const CLI::App& command) {
  return fmt::format(".BR {} (1)", roff(dashed_name(command)));
}

std::string title(const CLI::App& command) {
  std::string name = dashed_name(command);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  // Without a date: the page is the same whenever it is made.
  return fmt::format(".TH \"{}\" \"1\" \"\" \"wmtp {}\" \"Commands of wmtp\"\n", roff(name),
                     kVersion);
}

// "wmtp: fine-tune ..." of the program says its name itself.
std::string name_section(const CLI::App& command) {
  std::string said = command.get_description();
  const std::string own = full_name(command) + ": ";
  if (said.starts_with(own)) said = said.substr(own.size());
  return fmt::format(".SH NAME\n{} \\- {}\n", roff(dashed_name(command)), roff(said));
}

std::string synopsis(const CLI::App& command) {
  const std::string name = full_name(command);
  return fmt::format(".SH SYNOPSIS\n.B {}\n{}\n", roff(name),
                     roff(usage_line(command).substr(name.size() + 1)));
}

std::string commands_section(const CLI::App& command) {
  std::string text;
  for (const CLI::App* inner : visible_commands(command))
    text += fmt::format(".TP\n{}\n{}\n", reference(*inner), roff(inner->get_description()));
  return text.empty() ? text : ".SH COMMANDS\n" + text;
}

std::string options_section(const CLI::App& command) {
  std::string text;
  for (const HelpRow& row : flag_rows(command))
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(row.left), roff(row.right));
  if (command.get_parent()) text += ".PP\nThe flags of every command are in\n.BR wmtp (1).\n";
  return ".SH OPTIONS\n" + text;
}

std::string examples_section(const CLI::App& command) {
  std::string text, line;
  for (const char c : command.get_footer() + "\n") {
    if (c != '\n') {
      line += c;
      continue;
    }
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin != line.npos) text += roff(line.substr(begin)) + "\n";
    line.clear();
  }
  return text.empty() ? text : ".SH EXAMPLES\n.nf\n" + text + ".fi\n";
}

std::string exit_section() {
  std::string text = ".SH EXIT STATUS\n";
  for (const Status& status : kStatuses)
    text += fmt::format(".TP\n.B {}\n{}\n", static_cast<int>(status.code), roff(status.meaning));
  return text;
}

std::string see_also(const CLI::App& command) {
  if (!command.get_parent()) return "";
  std::string text = ".SH SEE ALSO\n" + reference(*command.get_parent());
  for (const CLI::App* sibling : visible_commands(*command.get_parent()))
    if (command.get_parent()->get_parent() && sibling != &command)
      text += ",\n" + reference(*sibling);
  return text + "\n";
}

}  // namespace

std::string man_page_file(const CLI::App& command) {
  return dashed_name(command) + ".1";
}

std::string man_page(const CLI::App& command) {
  std::string page = title(command) + name_section(command) + synopsis(command) +
                     commands_section(command) + options_section(command) +
                     examples_section(command);
  if (!command.get_parent()) page += exit_section();
  return page + see_also(command);
}

std::vector<std::filesystem::path> write_man_pages(const CLI::App& app,
                                                   const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    throw Error(ErrorKind::io, "completion",
                fmt::format("cannot make the folder {}: {}", folder.string(), failed.message()));
  std::vector<std::filesystem::path> files{folder / man_page_file(app)};
  storage::write_file_atomically(files.front(), man_page(app), storage::AtomicFile::kPublic);
  for (const CLI::App* command : visible_commands(app)) {
    const std::vector<std::filesystem::path> more = write_man_pages(*command, folder);
    files.insert(files.end(), more.begin(), more.end());
  }
  return files;
}

}  // namespace wmtp::cli
