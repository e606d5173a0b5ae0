#include "wmtp/cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace wmtp::cli {
namespace {

class Page {
 public:
  explicit Page(bool color) : color_(color) {}

  void heading(const std::string& text) {
    text_ += color_ ? "\n\x1b[1m" + text + "\x1b[0m\n" : "\n" + text + "\n";
  }
  void line(const std::string& text) { text_ += text + "\n"; }
  void table(const std::vector<HelpRow>& rows) {
    for (const HelpRow& row : rows)
      text_ += fmt::format("  {:<{}}  {}\n", row.left, width_, row.right);
  }
  void fit(const std::vector<HelpRow>& rows) {
    for (const HelpRow& row : rows) width_ = std::max(width_, row.left.size());
  }
  std::string take() { return std::move(text_); }

 private:
  bool color_;
  std::size_t width_ = 0;
  std::string text_;
};

// CLI11 appends what its validators say after a colon.
std::string type_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

HelpRow row_of(const CLI::Option& option) {
  HelpRow row;
  if (option.get_positional()) {
    row.left = type_of(option) == "TEXT" ? option.get_name() : type_of(option);
  } else {
    row.left = fmt::format("{}", fmt::join(names_of(option), ", "));
    if (option.get_items_expected_max() > 0) row.left += " " + type_of(option);
  }
  row.right = option.get_description();
  if (option.get_required()) row.right += " (required)";
  if (!option.get_default_str().empty())
    row.right += fmt::format(" ({})", option.get_default_str());
  return row;
}

void add_commands_of(const CLI::App& app, Page& page) {
  std::vector<std::string> groups;
  for (const CLI::App* command : visible_commands(app))
    if (std::find(groups.begin(), groups.end(), command->get_group()) == groups.end())
      groups.push_back(command->get_group());
  for (const std::string& group : groups) {
    std::vector<HelpRow> rows;
    for (const CLI::App* command : visible_commands(app))
      if (command->get_group() == group)
        rows.push_back({command->get_name(), command->get_description()});
    page.heading(group == "Subcommands" ? "Commands" : group);
    page.table(rows);
  }
}

}  // namespace

const CLI::App& chosen_command(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().back();
  return *at;
}

std::string full_name(const CLI::App& app) {
  return app.get_parent() ? full_name(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

std::vector<const CLI::App*> visible_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

std::vector<const CLI::Option*> visible_flags(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return !option->get_group().empty(); });
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : visible_flags(app))
    for (std::string& name : names_of(*option)) names.push_back(std::move(name));
  if (!app.get_parent()) return names;
  for (std::string& name : flag_names(*app.get_parent()))
    if (name != "--version" && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(std::move(name));
  return names;
}

std::vector<HelpRow> flag_rows(const CLI::App& app) {
  std::vector<HelpRow> rows;
  for (const CLI::Option* option : visible_flags(app)) rows.push_back(row_of(*option));
  return rows;
}

std::string usage_line(const CLI::App& app) {
  std::string line = full_name(app);
  if (!visible_commands(app).empty()) line += app.get_parent() ? " COMMAND" : " [flags] COMMAND";
  line += " [flags]";
  for (const CLI::Option* option : visible_flags(app))
    if (option->get_positional()) line += " " + row_of(*option).left;
  return line;
}

std::string help_text(const CLI::App& app, bool color) {
  Page page(color);
  page.line(app.get_description());
  page.line("\nUsage: " + usage_line(app));
  const std::vector<HelpRow> flags = flag_rows(app);
  page.fit(flags);
  for (const CLI::App* command : visible_commands(app)) page.fit({{command->get_name(), ""}});
  add_commands_of(app, page);
  if (!flags.empty()) {
    page.heading(app.get_parent() ? "Flags" : "Flags of every command");
    page.table(flags);
  }
  if (!app.get_footer().empty()) {
    page.heading(app.get_footer().find('\n') == std::string::npos ? "Example" : "Examples");
    page.line(app.get_footer());
  }
  if (!visible_commands(app).empty())
    page.line(fmt::format("\n`{} COMMAND --help` explains a command.", full_name(app)));
  return page.take();
}

}  // namespace wmtp::cli
