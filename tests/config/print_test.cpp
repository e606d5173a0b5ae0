// What a resolved configuration says about itself; the documents made from the table; shipped
// files.
#include <filesystem>
#include <set>

#include "config/config_fixture.h"
#include "support/paths.h"
#include "wmtp/config/canonical.h"
#include "wmtp/config/rules/inert_keys.h"
#include "wmtp/config/tables/describe.h"
#include "wmtp/config/tables/schema.h"
#include "wmtp/core/rng.h"

namespace wmtp::config {
namespace {

namespace fs = std::filesystem;

// A legal value other than the one in `value`; null where the row has none.
OrderedJson another(const Row& row, const OrderedJson& value, RngStream& rng) {
  if (row.type.path) return "some/" + std::to_string(rng.below(1000));
  if (!row.type.choices.empty()) {
    for (const std::string& choice : row.type.choices)
      if (value != choice) return choice;
    return nullptr;
  }
  if (value.is_boolean()) return !value.get<bool>();
  if (row.type.text) return "text " + std::to_string(rng.below(1000));
  if (row.type.name == "[string]")
    return OrderedJson::array({"v" + std::to_string(rng.below(1000)), "$${x}"});
  const double lo = std::isfinite(row.range.lo) ? row.range.lo : 0;
  if (row.type.name.starts_with("int")) {
    const auto base = static_cast<std::int64_t>(lo);
    return value == base + 2 ? base + 3 : base + 2;
  }
  if (row.type.name.starts_with("float")) {
    const double hi = std::min(row.range.hi, lo + 1);
    return lo + (hi - lo) * (0.1 + 0.8 * unit_uniform(rng.next()[0]));
  }
  return nullptr;
}

class PrintTest : public ConfigTest {
 protected:
  LoadRequest loose(const std::string& text, std::vector<std::string> overrides = {}) {
    LoadRequest wanted = request(text);
    wanted.check_available = false;
    wanted.overrides = std::move(overrides);
    return wanted;
  }
};

std::string override_of(const Row& row, const OrderedJson& value) {
  return row.key + "=" + (row.type.text ? value.get<std::string>() : yaml_text(value));
}

TEST_F(PrintTest, ResolvedTextLoadsBack) {
  env_["WHO"] = "me";
  const std::string awkward =
      "experiment: {name: run, stage: baseline, description: \"a: 'b' # "
      "c\\n\\t\\\"\\u263a\\x01${env:WHO} $${z}\",\n"
      "  tags: ['', ' x', '007', 'true', 'null', '1e5', '$${q}', '- a', '{', 'no', '.inf', '~', "
      "'<<', 'ünï']}\n"
      "models: {policy: {path: ~/m, params: {dim: 64, rope: {theta: 10000.0}, note: '*x'}}}\n"
      "dataset: {train: [a b.jsonl, '#c'], pad_to: 128}\n"
      "data_sampling: {difficulty_bins: {z: [0, 3], a: [4, 9.5]}, difficulty_weights: {a: 1, z: "
      "0.3}}\n"
      "training: {learning_rate: 0.1, optimizer: {betas: [0.123456789012345678, 0]}}\n"
      "logging: {console_ranks: all}\n";
  for (const std::string& text : {minimal(), awkward}) {
    const ResolvedConfig first = load_config(loose(text));
    for (const bool origins : {false, true}) {
      const ResolvedConfig second = load_config(loose(first.to_yaml(origins)));
      EXPECT_EQ(differences(first, second), std::vector<std::string>{});
      EXPECT_EQ(first.hash(), second.hash());
      EXPECT_EQ(first.to_yaml(), second.to_yaml());
    }
  }
}

TEST_F(PrintTest, RandomConfigurationsLoadBack) {
  RngStream rng(7, "config/round-trip");
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<std::string> overrides;
    for (const Row& row : schema().rows()) {
      if (rng.below(4) != 0 || row.key == "experiment.name" || row.key == "experiment.stage")
        continue;
      const OrderedJson value = another(row, schema().default_of(row), rng);
      if (!value.is_null()) overrides.push_back(override_of(row, value));
    }
    LoadRequest wanted = loose(minimal(), overrides);
    ResolvedConfig first;
    try {
      first = load_config(wanted);
    } catch (const ConfigError&) {
      continue;  // broke a rule between keys
    }
    EXPECT_EQ(differences(first, load_config(loose(first.to_yaml()))), std::vector<std::string>{});
  }
}

TEST_F(PrintTest, OneDifferentKeyIsSeenAndNamed) {
  const ResolvedConfig base = load_config(loose(minimal()));
  RngStream rng(11, "config/difference");
  int num_seen = 0;
  std::set<std::string> hashes{base.agreement_hash()};
  for (const Row& row : schema().rows()) {
    const OrderedJson value = another(row, row.value(base.config), rng);
    if (value.is_null() || row.key == "experiment.name" || row.key == "experiment.stage") continue;
    ResolvedConfig changed;
    try {
      changed = load_config(loose(minimal(), {override_of(row, value)}));
    } catch (const ConfigError& error) {
      continue;  // breaks a rule between keys
    }
    const InertRule* inert = inert_rule(row.key, base.config);
    if (inert && !inert->switched && row.available) {  // ignored, and so no difference
      EXPECT_EQ(changed.flat(), base.flat()) << row.key;
      continue;
    }
    EXPECT_EQ(changed.agreement_hash() != base.agreement_hash(), row.agreed) << row.key;
    EXPECT_EQ(changed.hash() != base.hash(), row.resume != ResumeClass::host) << row.key;
    if (!row.agreed) continue;
    EXPECT_TRUE(hashes.insert(changed.agreement_hash()).second) << row.key;
    const auto a = base.flat(), b = changed.flat();
    std::vector<std::string> named;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i]) named.push_back(a[i].first);
    ASSERT_FALSE(named.empty());
    EXPECT_NE(std::find(named.begin(), named.end(), row.key), named.end()) << row.key;
    ++num_seen;
  }
  EXPECT_GE(num_seen, 100);
}

TEST_F(PrintTest, DifferencesReadWell) {
  const auto lines = differences(load(minimal()), load(minimal(), {"training.learning_rate=1e-4"}));
  EXPECT_THAT(lines, ::testing::ElementsAre("training.learning_rate: 1e-05 -> 1e-04"));
}

TEST_F(PrintTest, OriginsStandOnEachLine) {
  const std::string text = load(minimal(), {"training.batch_size=3"}).to_yaml(true);
  EXPECT_THAT(text, ::testing::HasSubstr("# --override 1\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("stage.yaml:4\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("# derived: td.mode = td0\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("# built-in\n"));
}

TEST(TableTest, EveryKeyIsListed) {
  std::string keys;
  for (const Row& row : schema().rows()) {
    EXPECT_FALSE(row.help.empty()) << row.key;
    keys += row.key + "\n";
  }
  EXPECT_EQ(keys, test::slurp(test::source_dir() / "tests/golden/config_keys.txt"))
      << "a key was added, removed or moved: users' files depend on them";
}

TEST(TableTest, DocumentIsUpToDate) {
  EXPECT_TRUE(markdown_reference() == test::slurp(test::source_dir() / "docs/config.md"))
      << "run: wmtp validate --docs > docs/config.md";
}

TEST(TableTest, SchemaIsStrict) {
  const OrderedJson root = json_schema();
  EXPECT_EQ(root["$schema"], "https://json-schema.org/draft/2020-12/schema");
  const OrderedJson& training = root["properties"]["training"];
  EXPECT_EQ(training["additionalProperties"], false);
  const OrderedJson& rate = training["properties"]["learning_rate"];
  EXPECT_EQ(rate["anyOf"][0]["exclusiveMinimum"], 0.0);
  EXPECT_EQ(rate["anyOf"][0]["maximum"], 1.0);
  EXPECT_FALSE(rate["description"].get<std::string>().empty());
  EXPECT_EQ(root["properties"]["logging"]["properties"]["level"]["anyOf"][0]["enum"],
            OrderedJson({"debug", "info", "warn", "error"}));
}

TEST_F(PrintTest, ShippedFilesValidate) {
  int num_files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(test::source_dir() / "configs")) {
    if (entry.path().extension() != ".yaml" || entry.path().filename() == "defaults.yaml") continue;
    LoadRequest wanted = request("");
    wanted.file = entry.path();
    EXPECT_THAT(problems_of(wanted), ::testing::IsEmpty()) << entry.path();
    ++num_files;
  }
  EXPECT_GE(num_files, 5);
}

}  // namespace
}  // namespace wmtp::config
