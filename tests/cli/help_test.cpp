#include "wmtp/cli/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wmtp/cli/command.h"
#include "wmtp/cli/usage_error.h"

namespace wmtp::cli {
namespace {

using ::testing::HasSubstr;

class Program : public ::testing::Test {
 protected:
  Program() {
    set_up_program(app_, session_);
    add_commands(app_, session_);
  }

  // The message of a bad command line.
  std::string refuse(std::vector<std::string> words) {
    std::reverse(words.begin(), words.end());
    try {
      app_.parse(words);
    } catch (const CLI::ParseError& error) {
      const Error shown = usage_error(app_, error);
      EXPECT_EQ(exit_code(shown.kind()), ExitCode::config);
      return shown.what();
    }
    ADD_FAILURE() << "accepted";
    return "";
  }

  CLI::App app_;
  Session session_;
};

void expect_helpful(const CLI::App& command) {
  const std::string page = help_text(command, false);
  EXPECT_FALSE(command.get_description().empty()) << full_name(command);
  if (visible_commands(command).empty()) {
    EXPECT_THAT(page, HasSubstr("Example")) << full_name(command) << " has no example";
  }
  for (const CLI::Option* flag : visible_flags(command))
    EXPECT_FALSE(flag->get_description().empty()) << full_name(command) << " " << flag->get_name();
  for (const CLI::App* inner : visible_commands(command)) expect_helpful(*inner);
}

TEST_F(Program, EveryCommandAndFlagIsExplained) {
  for (const CLI::App* command : visible_commands(app_)) expect_helpful(*command);
}

TEST_F(Program, TheFrontPageNamesEveryCommand) {
  const std::string page = help_text(app_, false);
  for (const CLI::App* command : visible_commands(app_))
    EXPECT_THAT(page, HasSubstr("  " + command->get_name() + " "));
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
  EXPECT_NE(help_text(app_, true).find('\x1b'), std::string::npos);
}

TEST_F(Program, UnknownCommandsGetASuggestion) {
  EXPECT_THAT(refuse({"lanch"}), HasSubstr("did you mean `launch`?"));
  EXPECT_THAT(refuse({"xyzzy"}), HasSubstr("see `wmtp --help`"));
}

TEST_F(Program, UnknownFlagsGetASuggestion) {
  EXPECT_THAT(refuse({"launch", "--nprco", "2"}), HasSubstr("did you mean `--nproc`?"));
  EXPECT_THAT(refuse({"version", "--jsn"}), HasSubstr("did you mean `--json`?"));
  EXPECT_THAT(refuse({"launch", "--nprco=2"}), HasSubstr("`wmtp launch` has no flag --nprco;"));
}

TEST_F(Program, BadValuesAndMissingPartsAreNamed) {
  EXPECT_THAT(refuse({"launch", "--max-restarts", "many"}), HasSubstr("--max-restarts"));
  EXPECT_THAT(refuse({"--color", "red", "version"}), HasSubstr("--color"));
  EXPECT_THAT(refuse({"completion", "tcsh"}), HasSubstr("tcsh"));
  EXPECT_THAT(refuse({}), HasSubstr("needs a command"));
  EXPECT_THAT(refuse({"version", "extra"}), HasSubstr("does not take the argument `extra`"));
}

TEST_F(Program, GlobalFlagsMayFollowTheCommand) {
  std::vector<std::string> words{"--json", "version"};
  app_.parse(words);
  EXPECT_TRUE(session_.json);
}

}  // namespace
}  // namespace wmtp::cli
