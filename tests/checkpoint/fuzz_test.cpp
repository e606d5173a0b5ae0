// Thousands of mutations of valid manifests, rank parts and trainer states, the same in every run:
// whatever comes in, a parser answers or throws wmtp::Error, in bounded memory. The self hash is
// made right again after a mutation, so that the parser behind it is reached.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <functional>
#include <set>

#include "support/soak.h"
#include "wmtp/checkpoint/format/manifest.h"
#include "wmtp/checkpoint/format/manifest_text.h"
#include "wmtp/checkpoint/format/trainer_state.h"
#include "wmtp/core/checksum.h"
#include "wmtp/core/rng.h"

namespace wmtp::checkpoint {
namespace {

constexpr int kMutations = 6000;  // of each kind of file
constexpr long kMemoryBytes = 64L << 20;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : rng_(seed, "fuzz") {}
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : rng_.next()[0] % limit; }
  template <class List>
  const auto& one_of(const List& list) {
    return list[below(std::size(list))];
  }

 private:
  RngStream rng_;
};

const std::vector<std::string>& nasty_values() {
  static const std::vector<std::string> values{"0",
                                               "-1",
                                               "-0",
                                               "1",
                                               "2",
                                               "7.0",
                                               "1e999",
                                               "-1e999",
                                               "1e-999",
                                               "9223372036854775807",
                                               "9223372036854775808",
                                               "18446744073709551615",
                                               "18446744073709551616",
                                               "-9223372036854775808",
                                               "-9223372036854775809",
                                               "4611686018427387904",
                                               "4294967296",
                                               "1.7976931348623157e308",
                                               "null",
                                               "true",
                                               "false",
                                               "\"\"",
                                               "\"x\"",
                                               "[]",
                                               "{}",
                                               "[0]",
                                               "[1,2]",
                                               "[1,2,3]",
                                               "[-1]",
                                               "[1.5]",
                                               "[9223372036854775807,2]",
                                               "[[]]",
                                               "{\"a\":1,\"a\":2}",
                                               "NaN",
                                               "Infinity",
                                               "\"NaN\"",
                                               "\"\\u0000\"",
                                               "\"\\ud800\"",
                                               "\"../x\"",
                                               "\"/x\"",
                                               "\"model/1\"",
                                               "01",
                                               "+1",
                                               "0x1",
                                               "1.",
                                               ".5",
                                               "1e",
                                               "--1",
                                               "\"\xff\"",
                                               "\"\xc0\x80\"",
                                               "\x01",
                                               ""};
  return values;
}

// Where a value stands: [begin, end) of every string, number, word and bracket pair.
std::vector<std::pair<std::size_t, std::size_t>> values_of(const std::string& text) {
  std::vector<std::pair<std::size_t, std::size_t>> spans;
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      spans.emplace_back(i, std::min(end + 1, text.size()));
      i = end;
    } else if (c == '{' || c == '[') {
      open.push_back(i);
    } else if ((c == '}' || c == ']') && !open.empty()) {
      spans.emplace_back(open.back(), i + 1);
      open.pop_back();
    } else if (std::isalnum(static_cast<unsigned char>(c)) || c == '-') {
      const std::size_t end = std::min(text.find_first_of(",]}: \n", i), text.size());
      spans.emplace_back(i, end);
      i = end - 1;
    }
  }
  return spans;
}

void replace_value(std::string& text, Dice& dice) {
  const auto spans = values_of(text);
  if (spans.empty()) return;
  const auto [begin, end] = dice.one_of(spans);
  std::string value = dice.one_of(nasty_values());
  if (dice.below(4) == 0) {  // another value of the same file
    const auto [from, to] = dice.one_of(spans);
    value = text.substr(from, to - from);
  }
  if (dice.below(50) == 0) value = std::string(dice.below(40'000), dice.below(2) ? '[' : '{');
  if (dice.below(50) == 0) value = "\"" + std::string(dice.below(20'000), 'n') + "\"";
  text.replace(begin, end - begin, value);
}

void cut(std::string& text, Dice& dice) {
  text.erase(dice.below(text.size()), dice.below(40));
}
void repeat(std::string& text, Dice& dice) {  // entries, keys, half of the file
  const std::size_t from = dice.below(text.size());
  text.insert(dice.below(2) ? from : dice.below(text.size()), text.substr(from, dice.below(200)));
}
void flip(std::string& text, Dice& dice) {
  if (!text.empty()) text[dice.below(text.size())] ^= static_cast<char>(1 << dice.below(8));
}
void insert_noise(std::string& text, Dice& dice) {
  std::string noise;
  for (std::size_t i = 1 + dice.below(8); i > 0; --i)
    noise.push_back(static_cast<char>(dice.below(256)));
  text.insert(dice.below(text.size()), noise);
}

std::string mutated(std::string text, Dice& dice) {
  constexpr std::array kWays{replace_value, replace_value, replace_value, cut,
                             repeat,        flip,          insert_noise};
  for (std::size_t i = dice.below(3) ? 1 : 3; i > 0; --i) dice.one_of(kWays)(text, dice);
  return text;
}

struct Counts {
  int accepted = 0, refused = 0;
  std::set<std::string> facts;  // distinct ones, without their numbers
};

std::string shape_of(std::string fact) {
  std::erase_if(fact, [](char c) { return c >= '0' && c <= '9'; });
  return fact.substr(0, 60);
}

Counts fuzz(std::uint64_t seed, const std::string& valid,
            const std::function<std::string(std::string)>& finish,
            const std::function<void(const std::string&)>& parse) {
  Counts counts;
  Dice dice(seed);
  parse(finish(valid));
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  for (int i = 0; i < kMutations * test::soak_factor(); ++i) {
    const std::string text = finish(mutated(valid, dice));
    try {
      parse(text);
      ++counts.accepted;
    } catch (const Error& error) {
      ++counts.refused;
      EXPECT_NE(error.kind(), ErrorKind::internal) << error.what() << "\n" << text.substr(0, 2000);
      if (counts.facts.size() < 1000) counts.facts.insert(shape_of(error.fact()));
    } catch (const std::exception& error) {
      ADD_FAILURE() << "mutation " << i << ": " << error.what() << "\n" << text.substr(0, 2000);
      return counts;
    }
  }
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT((after.ru_maxrss - before.ru_maxrss) * 1024, kMemoryBytes);
  fmt::print("G5: {} mutations: {} accepted, {} refused with {} different facts\n",
             counts.accepted + counts.refused, counts.accepted, counts.refused,
             counts.facts.size());
  return counts;
}

void add_file(std::vector<FileRecord>& files, const std::string& path,
              std::vector<BoxRecord> boxes) {
  files.push_back({path, 100, std::string(64, 'a'), 0x0badcafe, std::move(boxes)});
}

RankPart sample_part() {
  RankPart part;
  part.model_tensors = {{"a", {storage::StoredDtype::F32, {4, 3}}},
                        {"b", {storage::StoredDtype::BF16, {5}}}};
  part.optim_tensors = {{"optim.state.b.exp_avg", {storage::StoredDtype::F32, {5}}}};
  add_file(part.files, "model/1", {{"a", {0, 0}, {2, 3}, 1}, {"b", {0}, {5}, 2}});
  add_file(part.files, "model/2", {{"a", {2, 0}, {1, 2}, 3}});
  add_file(part.files, "model/3", {{"a", {2, 2}, {1, 1}, 4}});
  add_file(part.files, "model/4", {{"a", {3, 0}, {1, 3}, 5}});
  add_file(part.files, "optim/1", {{"optim.state.b.exp_avg", {0}, {5}, 6}});
  part.state_hash = "s";
  return part;
}

Manifest sample_manifest() {
  const RankPart part = sample_part();
  Manifest manifest;
  manifest.model = "tiny";
  manifest.step = 7;
  manifest.run_id = "r1";
  manifest.created = "2026-01-01T00:00:00.000Z";
  manifest.wmtp = "0.1.0";
  manifest.world_size = 2;
  manifest.strategy = "FULL_SHARD";
  manifest.fingerprints = {"c", "d", "t", "b"};
  manifest.model_tensors = part.model_tensors;
  manifest.optim_tensors = part.optim_tensors;
  manifest.files = part.files;
  add_file(manifest.files, "trainer_state.json", {});
  return manifest;
}

TEST(ParserFuzz, Manifest) {
  Manifest manifest = sample_manifest();
  std::string body = to_text(manifest);
  const std::string tail_key = "\"self_sha256\":\"";
  body.resize(body.find(tail_key));
  auto with_hash = [&](std::string text) {
    text += tail_key;
    const std::size_t digits = text.size();
    text += std::string(64, '0') + "\"}\n";
    return text.replace(digits, 64, sha256_hex(text));
  };
  const Counts counts = fuzz(1, body, with_hash, [](const std::string& text) {
    Manifest read = parse_manifest(text, "folder");
    // What is believed means one thing: written again it reads the same.
    const std::string again = to_text(read);
    Manifest twice = parse_manifest(again, "folder");
    WMTP_CHECK(to_text(twice) == again, "an accepted manifest that does not come back");
    for (const FileRecord& file : read.files)
      for (const BoxRecord& box : file.boxes)
        for (const std::int64_t extent : box.shape)
          WMTP_CHECK(extent > 0, "an accepted box without elements");
  });
  EXPECT_GT(counts.accepted, 50) << "the parser behind the hash was hardly reached";
  EXPECT_GT(counts.facts.size(), 60u);
}

TEST(ParserFuzz, RankPart) {
  const Counts counts = fuzz(
      2, to_text(sample_part()), [](std::string text) { return text; },
      [](const std::string& text) { parse_part(text, "rank 1"); });
  EXPECT_GT(counts.accepted, 50);
  EXPECT_GT(counts.facts.size(), 60u);
}

TEST(ParserFuzz, TrainerState) {
  OrderedJson state{{"version", 1},
                    {"step", 40},
                    {"epoch", 1},
                    {"samples_seen", 80},
                    {"tokens_seen", 4096},
                    {"cursor", {{"epoch", 1}, {"samples_taken", 8}, {"seed", 42}, {"list", "ab"}}},
                    {"rng", {{"seed", 42}}},
                    {"optimizer", {{"applied_updates", 40}, {"groups", {{{"name", "policy"}}}}}},
                    {"schedule", {{"planned_steps", 40}, {"plateau_best", nullptr}}},
                    {"loss_scale", {{"scale", 65536.0}, {"good_steps", 3}}},
                    {"ema", {{"ema_mean", 0.1}, {"ema_std", 1e-300}}},
                    {"best", {{"metric", "val/loss"}, {"value", "NaN"}, {"step", 10}}},
                    {"early_stop", {{"without_best", 2}}},
                    {"layout", {{"world_size", 2}, {"strategy", "FULL_SHARD"}}},
                    {"mlflow", nullptr}};
  const Counts counts = fuzz(
      3, trainer_state_text(state), [](std::string text) { return text; },
      [](const std::string& text) {
        const Json read = parse_trainer_state(text, "file");
        for (const auto& [key, value] : read.items())
          if (value.is_number() || value.is_string()) try {
              read_number(value, key);
            } catch (const Error&) {
            }
      });
  EXPECT_GT(counts.accepted, 50);
  EXPECT_GT(counts.facts.size(), 30u);
}

}  // namespace
}  // namespace wmtp::checkpoint
