#include "wmtp/cli/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iomanip>
#include <sstream>

#include "wmtp/cli/command.h"
#include "wmtp/cli/usage_error.h"

namespace wmtp::cli {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

class Program : public ::testing::Test {
 protected:
  Program() {
    set_up_program(app_, session_);
    add_commands(app_, session_);
  }

  // The message of a bad command line.
  std::string refuse(const std::vector<std::string>& words) {
    try {
      app_.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (const CLI::ParseError& error) {
      const Error shown = usage_error(app_, error, words);
      EXPECT_EQ(exit_code(shown.kind()), ExitCode::config);
      return shown.what();
    }
    ADD_FAILURE() << "accepted";
    return "";
  }

  CLI::App app_;
  Session session_;
};

// The words of an example up to what is the shell's.
std::vector<std::string> words_of(const std::string& example) {
  std::istringstream stream(example.substr(0, example.find_first_of("<>")));
  std::vector<std::string> words;
  for (std::string word; stream >> std::quoted(word);) words.push_back(word);
  words.erase(words.begin());
  return words;
}

// The command that an example calls, itself or through `wmtp launch`.
std::string called_by(const std::vector<std::string>& words) {
  if (words.front() == "bench") return "wmtp bench";  // the rest is for another program
  CLI::App app;
  Session session;
  set_up_program(app, session);
  add_commands(app, session);
  std::vector<std::string> rest(words.rbegin(), words.rend());
  try {
    app.parse(rest);
  } catch (const CLI::CallForHelp&) {
  }
  const auto command = std::find(words.begin(), words.end(), "--");
  return command == words.end() ? full_name(chosen_command(app))
                                : called_by({command + 1, words.end()});
}

void expect_helpful(const CLI::App& command) {
  const std::string page = help_text(command, false), name = full_name(command);
  EXPECT_FALSE(command.get_description().empty()) << name;
  std::istringstream footer(command.get_footer());
  std::size_t num_examples = 0;
  for (std::string line; std::getline(footer, line); ++num_examples) {
    std::string called;
    EXPECT_NO_THROW(called = called_by(words_of(line))) << line;
    EXPECT_TRUE(called == name || called.starts_with(name + " ") || name == "wmtp launch") << line;
    EXPECT_THAT(page, HasSubstr(line));
  }
  EXPECT_THAT(num_examples, AllOf(Ge(2U), Le(3U))) << name;
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

TEST_F(Program, AnUnknownShortFlagIsTheLongOneOfItsLetter) {
  EXPECT_THAT(refuse({"train", "-c", "my run.yaml", "--max-steps", "3"}),
              HasSubstr("`wmtp train` has no flag -c; did you mean `--config`? wmtp train --config "
                        "'my run.yaml' --max-steps 3"));
  EXPECT_THAT(refuse({"launch", "-l", "logs", "--", "doctor"}),
              HasSubstr("did you mean `--log-dir`? wmtp launch --log-dir logs -- doctor"));
  EXPECT_THAT(refuse({"launch", "-n", "2", "--", "doctor"}), HasSubstr("see `wmtp launch --help`"))
      << "--nproc or --nnodes";
  EXPECT_THAT(refuse({"train", "-d", "cpu"}), HasSubstr("see `wmtp train --help`"));
}

TEST_F(Program, ABareConfigurationGetsItsFlag) {
  EXPECT_THAT(refuse({"train", "run.yaml", "--device", "cpu"}),
              HasSubstr("`wmtp train` does not take the argument `run.yaml`; did you mean: wmtp "
                        "train --config run.yaml --device cpu"));
  EXPECT_THAT(refuse({"train", "--config", "a.yaml", "b.yaml"}),
              HasSubstr("see `wmtp train --help`"));
}

TEST_F(Program, LaunchWithoutTheDashesIsToldWhereTheyStand) {
  constexpr const char* kWhole =
      "`--` stands before what the ranks run: wmtp launch --nproc 2 -- train --config run.yaml";
  EXPECT_THAT(refuse({"launch", "--nproc", "2", "train", "--config", "run.yaml"}),
              HasSubstr(kWhole));
  EXPECT_THAT(refuse({"launch", "--nproc", "2", "trian", "--config", "run.yaml"}),
              HasSubstr(kWhole));
  EXPECT_THAT(refuse({"launch", "--nproc", "2", "--config", "run.yaml"}), HasSubstr(kWhole));
  EXPECT_THAT(refuse({"launch", "--nprco", "2", "train"}), HasSubstr("did you mean `--nproc`?"));
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
