#include "wmtp/config/commented.h"

#include "config/config_fixture.h"

namespace wmtp::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class CommentedTest : public ConfigTest {
 protected:
  std::vector<CommentedKey> keys_{
      {"training.learning_rate", 1e-5, ""}, {"experiment.stage", "baseline", ""},
      {"experiment.name", "run", ""},       {"models.policy.path", "micro", ""},
      {"dataset.train", "data.jsonl", ""},  {"training.lr_scheduler.type", "cosine", ""}};

  Config loaded() { return load(commented_yaml(keys_)).config; }
};

TEST_F(CommentedTest, ValuesLoadBack) {
  keys_.push_back({"dataset.max_length", 448, "99 % of 812 rows have at most 386 tokens."});
  keys_.push_back({"dataset.validation", OrderedJson{"a.jsonl", "b c.jsonl"}, ""});
  keys_.push_back({"data_sampling.n_samples", nullptr, ""});
  const Config config = loaded();
  EXPECT_EQ(config.dataset.max_length, 448);
  EXPECT_THAT(config.dataset.validation.value(), ElementsAre("a.jsonl", "b c.jsonl"));
  EXPECT_FALSE(config.data_sampling.n_samples);
  EXPECT_EQ(config.training.lr_scheduler.type, LrSchedule::cosine);
}

TEST_F(CommentedTest, EveryKeyStandsBelowItsHelpAndItsFactInSchemaOrder) {
  keys_.push_back({"dataset.max_length", 448, "99 % of 812 rows have at most 386 tokens."});
  const std::string text = commented_yaml(keys_);
  EXPECT_THAT(text, HasSubstr("dataset:\n  # Training files\n  train: data.jsonl\n"
                              "  # Tokens of a sequence at most; not beyond the model's positions\n"
                              "  # Here: 99 % of 812 rows have at most 386 tokens.\n"
                              "  max_length: 448\n"));
  EXPECT_LT(text.find("experiment:"), text.find("models:"));
  EXPECT_LT(text.find("name: run"), text.find("stage: baseline"));
  EXPECT_THAT(text, HasSubstr("  lr_scheduler:\n    # Course"));
}

TEST_F(CommentedTest, ForeignTextNeitherEndsACommentNorActsOnATerminal) {
  const std::string hostile =
      "col\numn\r\xE2\x80\xA8training: {batch_size: 7}\x1b[31m\xC2\x85\xE2\x80\xAE\t\xff";
  keys_.push_back({"dataset.max_length", 448, "nothing reads \"" + hostile + "\"."});
  const std::string text = commented_yaml(keys_);
  EXPECT_EQ(loaded().training.batch_size, 1);
  EXPECT_THAT(text, HasSubstr("col\\numn\\u000d\\u2028training:"));
  for (const char* raw : {"\x1b", "\r", "\xC2\x85", "\xE2\x80\xAE", "\xff"})
    EXPECT_THAT(text, Not(HasSubstr(raw)));
}

TEST_F(CommentedTest, AnyTextIsAValue) {
  for (const std::string value : {"${env:HOME}/x", "a: b # c", "- \"quoted\"", "new\nline",
                                  "\xE2\x80\xAEturned\x1b[31m", "true", "1e5", "~"}) {
    auto keys = keys_;
    keys.push_back({"dataset.name", value, ""});
    const std::string text = commented_yaml(keys);
    EXPECT_EQ(load(text).config.dataset.name, value) << text;
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  }
}

TEST_F(CommentedTest, CommentsBreakBetweenWordsBeforeColumn100) {
  std::string words;
  for (int i = 0; i < 60; ++i) words += (i ? " " : "") + std::string("word");
  std::istringstream lines(comment_lines(words, 4));
  std::string joined;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U);
    EXPECT_THAT(line, ::testing::StartsWith("    # word"));
    joined += line.substr(5);
  }
  EXPECT_EQ(joined, " " + words);
  EXPECT_LE(comment_lines("a " + std::string(5000, 'x'), 0).size(), 300U) << "words are cut";
}

}  // namespace
}  // namespace wmtp::config
