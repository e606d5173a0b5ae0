// Files that mean harm, or were written by mistake: each with the exact problem it gives.
#include <filesystem>

#include "config/config_fixture.h"

namespace wmtp::config {
namespace {

using ::testing::ElementsAre;

struct Hostile {
  std::string name, text;
  std::vector<std::string> problems;
};

std::string repeat(const std::string& part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

std::string laughs() {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before +
            repeat(", " + before, 9) + "]\n";
  }
  return text;
}

std::string many_keys(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "k" + std::to_string(i) + ": 1\n";
  return text;
}

const std::string kHead =
    "experiment: {name: run, stage: baseline}\nmodels: {policy: {path: micro}}\ndataset: {train: "
    "data.jsonl}\n";

std::vector<Hostile> hostile_files() {
  const auto training = [](const std::string& value) {
    return kHead + "training: {learning_rate: " + value + "}\n";
  };
  const auto key = [](const std::string& name, const std::string& value) {
    return kHead + "training: {learning_rate: 1e-5}\n" + name + ": " + value + "\n";
  };
  const std::string at = "stage.yaml:4:27: training.learning_rate: ";
  return {
      {"one byte too many",
       repeat(" ", (1 << 20) + 1),
       {"stage.yaml: cannot read stage.yaml: 1048577 bytes, the limit is 1048576"}},
      {"NUL", std::string("a: \0b", 5), {"stage.yaml:1:4: control character 0x00 at byte 3"}},
      {"escape byte", "a: \x1b[2J\n", {"stage.yaml:1:4: control character 0x1b at byte 3"}},
      {"delete byte", "a: \x7f\n", {"stage.yaml:1:4: control character 0x7f at byte 3"}},
      {"end-of-text byte", "a: \x04\n", {"stage.yaml:1:4: control character 0x04 at byte 3"}},
      {"lone continuation byte", "a: \x80\n", {"stage.yaml:1:4: invalid UTF-8 at byte 3 (0x80)"}},
      {"overlong slash", "a: \xc0\xaf\n", {"stage.yaml:1:4: invalid UTF-8 at byte 3 (0xc0)"}},
      {"surrogate", "x: 1\na: \xed\xa0\x80\n", {"stage.yaml:2:4: invalid UTF-8 at byte 8 (0xed)"}},
      {"beyond Unicode",
       "a: \xf4\x90\x80\x80\n",
       {"stage.yaml:1:4: invalid UTF-8 at byte 3 (0xf4)"}},
      {"cut sequence", "a: \xe2\x82", {"stage.yaml:1:4: invalid UTF-8 at byte 3 (0xe2)"}},
      {"UTF-16",
       "\xff\xfe"
       "a",
       {"stage.yaml:1:1: invalid UTF-8 at byte 0 (0xff)"}},
      {"deep flow lists",
       "a: " + repeat("[", 100) + repeat("]", 100),
       {"stage.yaml:1:35: nested deeper than 32 levels"}},
      {"deep flow maps",
       "a: " + repeat("{a: ", 100) + repeat("}", 100),
       {"stage.yaml:1:128: nested deeper than 32 levels"}},
      {"deep and open flow lists",
       repeat("[", 100000),
       {"stage.yaml:1:1: a key must be a plain or quoted text; is a bracket left open?"}},
      {"deep block lists", repeat("- ", 100000), {"stage.yaml:1:65: nested deeper than 32 levels"}},
      {"deep quotes of brackets",
       "a: " + repeat("[{b: ", 100) + repeat("}]", 100),
       {"stage.yaml:1:80: nested deeper than 32 levels"}},
      {"billion laughs",
       laughs(),
       {"stage.yaml:4:45: more than 10000 nodes after alias expansion"}},
      {"too many nodes",
       many_keys(6000),
       {"stage.yaml:5000:8: more than 10000 nodes after alias expansion"}},
      {"too many aliases",
       "a: &a x\nb: [" + repeat("*a, ", 101) + "]\n",
       {"stage.yaml:2:405: more than 100 aliases"}},
      {"recursive alias",
       "a: &a [1, *a]\n",
       {"stage.yaml:1:11: an alias inside the value it names"}},
      {"recursive map alias",
       "a: &a {b: *a}\n",
       {"stage.yaml:1:11: an alias inside the value it names"}},
      {"unknown alias",
       "a: *gone\n",
       {"stage.yaml:1:4: YAML: the referenced anchor is not defined"}},
      {"anchors inside anchors",
       "a: " + repeat("&x [", 30) + repeat("1, ", 2000) + repeat("]", 30) + "\n",
       {"stage.yaml:1:104: anchors on more than 10000 nodes"}},
      {"merge key",
       "a: &a {b: 1}\nc: {<<: *a}\n",
       {"stage.yaml:2:5: merge keys << are refused; write the keys out or use extends"}},
      {"tag",
       "a: !!python/object:os.system ls\n",
       {"stage.yaml:1:4: tags are refused, found tag:yaml.org,2002:python/object:os.system"}},
      {"local tag", "a: !secret x\n", {"stage.yaml:1:4: tags are refused, found !secret"}},
      {"tag on a list",
       "a: !!set [x]\n",
       {"stage.yaml:1:4: tags are refused, found tag:yaml.org,2002:set"}},
      {"binary tag",
       "a: !!binary aGk=\n",
       {"stage.yaml:1:4: tags are refused, found tag:yaml.org,2002:binary"}},
      {"second document",
       "--- {}\n--- {}\n",
       {"stage.yaml:2:1: several documents in one file are refused"}},
      {"list as key",
       "? [a, b]\n: 1\n",
       {"stage.yaml:1:3: a key must be a plain or quoted text; is a bracket left open?"}},
      {"map as key",
       "{{a: 1}: 2}\n",
       {"stage.yaml:1:2: a key must be a plain or quoted text; is a bracket left open?"}},
      {"open bracket", "a: [1, 2\n", {"stage.yaml:2:1: YAML: end of sequence flow not found"}},
      {"open quote", "a: \"b\n", {"stage.yaml:1:4: the quote is not closed"}},
      {"open quote in a list",
       "\xef\xbb\xbf"
       "\xc3\xa4: ['b]\n",
       {"stage.yaml:1:6: the quote is not closed"}},
      {"two values on a line", "a: b: c\n", {"stage.yaml:1:5: YAML: illegal map value"}},
      {"bad escape", "a: \"\\q\"\n", {"stage.yaml:1:7: YAML: unknown escape character: q"}},
      {"list for a file",
       "- a\n- b\n",
       {"stage.yaml:1:1: expected a map of sections, found a list"}},
      {"text for a file",
       "hello\n",
       {"stage.yaml:1:1: expected a map of sections, found the text \"hello\""}},
      {"duplicate section",
       kHead + "training: {learning_rate: 1}\ntraining: {learning_rate: 1}\n",
       {"stage.yaml:5:1: training: duplicate key"}},
      {"duplicate key",
       training("1e-5, learning_rate: 1e-4"),
       {"stage.yaml:4:33: training.learning_rate: duplicate key"}},
      {"duplicate key in two spellings",
       training("1e-5, 'learning_rate': 1e-4"),
       {"stage.yaml:4:33: training.learning_rate: duplicate key"}},
      {"infinity", training(".inf"), {at + "infinities and NaN are refused, found .inf"}},
      {"NaN", training("-.NaN"), {at + "infinities and NaN are refused, found -.NaN"}},
      {"huge exponent",
       training("1e999"),
       {at + "the number 1e999 is beyond what a double can hold"}},
      {"text for a number", training("fast"), {at + "expected a number, found the text \"fast\""}},
      {"quoted number", training("'1e-5'"), {at + "expected a number, found the text \"1e-5\""}},
      {"null", training("null"), {at + "expected a number, found null"}},
      {"list for a number", training("[1]"), {at + "expected a number, found a list"}},
      {"out of range", training("1.5"), {at + "1.5 is out of range, allowed is (0, 1]"}},
      {"zero", training("0"), {at + "0 is out of range, allowed is (0, 1]"}},
      {"fraction for an int",
       key("runtime", "{threads: 1.5}"),
       {"stage.yaml:5:20: runtime.threads: expected an integer, found 1.5"}},
      {"beyond 64 bits",
       key("runtime", "{seed: 18446744073709551616}"),
       {"stage.yaml:5:17: runtime.seed: 18446744073709551616 is beyond 64 bits"}},
      {"negative seed",
       key("runtime", "{seed: -1}"),
       {"stage.yaml:5:17: runtime.seed: -1 is out of range, allowed is >= 0"}},
      {"yes",
       key("logging", "{rank_files: yes}"),
       {"stage.yaml:5:23: logging.rank_files: expected true or false, found the text \"yes\"; "
        "write true"}},
      {"Off",
       key("logging", "{rank_files: Off}"),
       {"stage.yaml:5:23: logging.rank_files: expected true or false, found the text \"Off\"; "
        "write false"}},
      {"True",
       key("logging", "{rank_files: True}"),
       {"stage.yaml:5:23: logging.rank_files: expected true or false, found the text \"True\"; "
        "write true"}},
      {"near enum",
       key("logging", "{level: wran}"),
       {"stage.yaml:5:18: logging.level: expected one of debug, info, warn, error, found the text "
        "\"wran\"; did you "
        "mean \"warn\"?"}},
      {"number for a string",
       key("experiment2", "1"),
       {"stage.yaml:5:1: experiment2: unknown key; did you mean \"experiment\"?"}},
      {"null section",
       key("runtime", ""),
       {"stage.yaml:5:1: runtime: expected a map of keys, found null"}},
      {"list section",
       key("runtime", "[a]"),
       {"stage.yaml:5:10: runtime: expected a map of keys, found a list"}},
      {"one beta",
       key("logging", "{console_ranks: [a]}"),
       {"stage.yaml:5:27: logging.console_ranks: expected an integer, found the text \"a\""}},
      {"key that moves the cursor",
       "\"a\\e[2J\": 1\n",
       {"stage.yaml:1:1: a\\x1b[2J: unknown key",
        "stage.yaml: experiment.name: required key is missing; `wmtp init` writes a file that has "
        "all of them"}},
  };
}

class HostileYaml : public ConfigTest {};

TEST_F(HostileYaml, EachFileHasItsProblem) {
  int num_cases = 0;
  for (const Hostile& one : hostile_files()) {
    SCOPED_TRACE(one.name);
    const double start = cpu_seconds();
    auto found = problems(one.text);
    EXPECT_LT(cpu_seconds() - start, 1.0);
    // Required keys that a useless file lacks are not the point here.
    std::erase_if(found,
                  [](const std::string& line) { return line.find("required key") != line.npos; });
    auto expected = one.problems;
    std::erase_if(expected,
                  [](const std::string& line) { return line.find("required key") != line.npos; });
    EXPECT_EQ(found, expected);
    ++num_cases;
  }
  EXPECT_GE(num_cases, 40);
}

// 400 references to a list of 400 would be 160,000 values, and a list of those 64 million.
TEST_F(HostileYaml, ReferencesDoNotMultiply) {
  const std::string text =
      minimal("runtime: {seed: [" + repeat("x, ", 400) + "]}\ntracking: {jsonl: [" +
              repeat("'${runtime.seed}', ", 400) + "]}\n");
  const double start = cpu_seconds();
  EXPECT_THAT(problems(text),
              ::testing::Contains(::testing::HasSubstr("references copy more than 100000 values")));
  EXPECT_LT(cpu_seconds() - start, 1.0);
}

TEST_F(HostileYaml, BigFilesCostNothing) {
  for (const std::string part :
       {"[",  "{",     "- ",  "? ",         "a: ",   "!x ",     "&a ",     "\"",
        "'",  "#",     "\n",  "%TAG ! x\n", "[a, ",  "{a: b, ", "|\n a\n", "x",
        "\t", "a:\n ", "*a ", "---\n",      "...\n", ": ",      "\\"}) {
    const double start = cpu_seconds();
    problems(repeat(part, (1 << 18) / static_cast<int>(part.size())));
    EXPECT_LT(cpu_seconds() - start, 1.0) << part;
  }
  LoadRequest wanted = request("");
  std::filesystem::resize_file(wanted.file, 100'000'000);
  const double start = cpu_seconds();
  EXPECT_THAT(
      problems_of(wanted),
      ElementsAre("stage.yaml: cannot read stage.yaml: 100000000 bytes, the limit is 1048576"));
  EXPECT_LT(cpu_seconds() - start, 0.1);
}

TEST_F(HostileYaml, ProblemsAreSortedAndAtMostFiftyShown) {
  std::string text = minimal();
  for (int i = 0; i < 60; ++i) text += "unknown_" + std::to_string(i) + ": 1\n";
  LoadRequest wanted = request(text);
  wanted.overrides = {"x=1"};
  test::write_file(dir_ / "defaults.yaml", "training: {bad_key_here: 1\n");
  try {
    load_config(wanted);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.problems().size(), 62u);
    EXPECT_EQ(error.problems().front().text, "YAML: end of map flow not found");
    EXPECT_EQ(error.problems().back().where, "--override 1");
    const std::string shown = error.what();
    EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 51);
    EXPECT_TRUE(shown.ends_with("\n62 errors")) << shown;
  }
}

}  // namespace
}  // namespace wmtp::config
