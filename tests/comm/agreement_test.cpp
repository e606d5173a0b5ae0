#include "wmtp/comm/agreement.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <future>

#include "support/expect_error.h"
#include "wmtp/core/failpoint.h"
#include "wmtp/core/rng.h"

namespace wmtp::comm {
namespace {

using Table = std::map<std::string, std::string>;

Facts usual_facts() {
  Facts facts;
  facts.must_agree = {{"build", "abc"}, {"LibTorch", "2.11.0"}, {"config hash", "77"}};
  for (int i = 0; i < 60; ++i)
    facts.config[fmt::format("section{}.key{}", i % 7, i)] = fmt::format("value {}", i);
  return facts;
}

// What each rank's agree() came to: its error text, or "".
std::vector<std::string> outcomes(const std::vector<Facts>& by_rank,
                                  std::chrono::milliseconds timeout) {
  const Store store = Store::in_process();
  std::vector<std::future<std::string>> ranks;
  for (std::size_t r = 0; r < by_rank.size(); ++r)
    ranks.push_back(std::async(std::launch::async, [&, r]() -> std::string {
      try {
        agree(store, by_rank[r], {static_cast<int>(r), static_cast<int>(by_rank.size()), timeout});
        return "";
      } catch (const Error& error) {
        return fmt::format("{} {}", static_cast<int>(exit_code(error.kind())), error.fact());
      }
    }));
  std::vector<std::string> texts;
  for (auto& rank : ranks) texts.push_back(rank.get());
  return texts;
}

TEST(Agreement, EqualFactsAgree) {
  for (const std::string& text :
       outcomes(std::vector<Facts>(4, usual_facts()), std::chrono::seconds(10)))
    EXPECT_EQ(text, "");
}

TEST(Agreement, HundredRandomSingleDifferencesAreNamed) {
  RngStream random(1, "agreement");
  for (int round = 0; round < 100; ++round) {
    const auto world = 3 + random.below(4), odd = random.below(world);
    std::vector<Facts> facts(world, usual_facts());
    Table& table = random.below(5) == 0 ? facts[odd].must_agree : facts[odd].config;
    auto entry = table.begin();
    std::advance(entry, static_cast<long>(random.below(table.size())));
    const std::string key = entry->first, before = entry->second;
    const bool removed = random.below(4) == 0;
    if (removed)
      table.erase(entry);
    else
      entry->second += "!";
    const std::string expected = fmt::format("78 ranks disagree: rank {}: {} {}, others {}", odd,
                                             key, removed ? "(not set)" : before + "!", before);
    for (const std::string& text : outcomes(facts, std::chrono::seconds(10)))
      ASSERT_EQ(text, expected);
  }
}

// The control: with the agreement left out, the odd rank goes unseen.
TEST(Agreement, SkippedAgreementSeesNothing) {
  failpoint::configure({.spec = "comm.agree.post:nth=1+=skip", .rank = 0, .log_path = {}});
  std::vector<Facts> facts(3, usual_facts());
  facts[1].must_agree["build"] = "other";
  for (const std::string& text : outcomes(facts, std::chrono::seconds(10))) EXPECT_EQ(text, "");
  failpoint::configure({});
}

TEST(Agreement, MajorityAndTies) {
  const auto lines = [](std::vector<std::string> values) {
    std::vector<Table> tables;
    for (const std::string& value : values) tables.push_back({{"lr", value}});
    return differences(tables);
  };
  EXPECT_EQ(lines({"1", "2", "2", "2"}), std::vector<std::string>{"rank 0: lr 1, others 2"});
  EXPECT_EQ(lines({"1", "2"}), std::vector<std::string>{"rank 1: lr 2, others 1"});
  EXPECT_EQ(lines({"1", "2", "1", "2", "1"}),
            std::vector<std::string>{"ranks 1, 3: lr 2, others 1"});
  EXPECT_EQ(lines({"1", "2", "3", "1"}),
            (std::vector<std::string>{"rank 1: lr 2, others 1", "rank 2: lr 3, others 1"}));
}

TEST(Agreement, SoftDifferencesAreWarnings) {
  const Store store = Store::in_process();
  Facts first = usual_facts(), second = usual_facts();
  first.should_agree["GPU"] = "H200";
  second.should_agree["GPU"] = "H100";
  auto other = std::async(std::launch::async, [&] {
    return agree(store, second, {1, 2, std::chrono::seconds(10)});
  });
  const std::vector<std::string> expected{"rank 1: GPU H100, others H200"};
  EXPECT_EQ(agree(store, first, {0, 2, std::chrono::seconds(10)}), expected);
  EXPECT_EQ(other.get(), expected);
}

TEST(Agreement, ClocksThatDifferAreWarnings) {
  const Store store = Store::in_process();
  Facts first = usual_facts(), second = usual_facts();
  first.clock_s = 1000.0, second.clock_s = 988.5;
  auto other = std::async(std::launch::async, [&] {
    return agree(store, second, {1, 2, std::chrono::seconds(10)});
  });
  const std::vector<std::string> expected{"rank 1: its clock is 11.5 s behind rank 0's"};
  EXPECT_EQ(agree(store, first, {0, 2, std::chrono::seconds(10)}), expected);
  EXPECT_EQ(other.get(), expected);
  EXPECT_TRUE(clock_differences({100.0, 100.0 + kClockSkew_s, std::nullopt}).empty());
  EXPECT_EQ(clock_differences({100.0, std::nullopt, 107.0}).size(), 1u);
}

TEST(Agreement, MissingRankIsNamed) {
  EXPECT_WMTP_ERROR(
      agree(Store::in_process(), usual_facts(), {0, 2, std::chrono::milliseconds(200)}),
      ErrorKind::comm, "rank 1 did not join the agreement 'start'");
}

TEST(Agreement, ForeignValuesAreRefused) {
  const Store store = Store::in_process();
  store.set("agree/start/facts/1", "{\"must\": {\"build\": [1]}}");
  EXPECT_WMTP_ERROR(agree(store, usual_facts(), {0, 2, std::chrono::seconds(1)}), ErrorKind::data,
                    "malformed fact");
  const Store long_store = Store::in_process();
  long_store.set("agree/start/facts/1", std::string(Store::kMaxValueBytes + 1, 'x'));
  EXPECT_WMTP_ERROR(agree(long_store, usual_facts(), {0, 2, std::chrono::seconds(1)}),
                    ErrorKind::data, "more than");
}

}  // namespace
}  // namespace wmtp::comm
