#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "support/expect_error.h"
#include "support/paths.h"
#include "wmtp/core/json.h"
#include "wmtp/data/sampling/curriculum.h"
#include "wmtp/data/sampling/epoch_order.h"
#include "wmtp/data/sampling/quota.h"
#include "wmtp/data/sampling/sample_list.h"

namespace wmtp::data {
namespace {

const OrderedJson& golden() {
  static const OrderedJson json = [] {
    // Bins keep the order of the file, so the strict (sorting) reader will not do here.
    std::ifstream file(wmtp::test::source_dir() / "tests/golden/data_sampling.json");
    return OrderedJson::parse(file);
  }();
  return json;
}

// The table of the golden file, cut into `num_parts` files: the drawn list must not depend on the
// cut.
struct GoldenTable {
  std::vector<std::int16_t> difficulty;
  std::vector<std::uint8_t> flags;
  std::vector<std::uint32_t> problem, output_tokens;
  std::vector<std::string> names;
  std::vector<bool> candidates;
  std::vector<std::vector<std::uint32_t>> part_problem;
  RowTable table;

  explicit GoldenTable(std::size_t num_parts = 1) {
    std::set<std::string> sorted;
    for (const auto& row : golden()["table"])
      if (!row["problem"].is_null()) sorted.insert(row["problem"].get<std::string>());
    names.assign(sorted.begin(), sorted.end());
    for (const auto& row : golden()["table"]) {
      difficulty.push_back(row["difficulty"].is_null() ? kNoDifficulty
                                                       : row["difficulty"].get<std::int16_t>());
      flags.push_back(row["correct"].get<bool>() ? kRowCorrect : 0);
      output_tokens.push_back(row["output_tokens"].get<std::uint32_t>());
      candidates.push_back(row["candidate"].get<bool>());
      problem.push_back(row["problem"].is_null()
                            ? kNoProblem
                            : static_cast<std::uint32_t>(std::distance(
                                  sorted.begin(), sorted.find(row["problem"].get<std::string>()))));
    }
    const std::size_t rows = flags.size(), size = (rows + num_parts - 1) / num_parts;
    part_problem.resize(num_parts);
    for (std::size_t i = 0; i < num_parts; ++i)
      add_part(i, i * size, std::min(rows, (i + 1) * size));
    table.set_candidates(candidates);
  }

  // Each file has its own numbering of the problems it mentions.
  void add_part(std::size_t number, std::size_t begin, std::size_t end) {
    std::set<std::uint32_t> mentioned(problem.begin() + static_cast<std::ptrdiff_t>(begin),
                                      problem.begin() + static_cast<std::ptrdiff_t>(end));
    mentioned.erase(kNoProblem);
    std::vector<std::string_view> local_names;
    std::map<std::uint32_t, std::uint32_t> local{{kNoProblem, kNoProblem}};
    for (std::uint32_t global : mentioned) {
      local[global] = static_cast<std::uint32_t>(local_names.size());
      local_names.push_back(names[global]);
    }
    for (std::size_t i = begin; i < end; ++i) part_problem[number].push_back(local[problem[i]]);
    RowTable::Part part;
    part.num_rows = static_cast<std::uint32_t>(end - begin);
    part.difficulty = std::span(difficulty).subspan(begin, end - begin);
    part.flags = std::span(flags).subspan(begin, end - begin);
    part.output_tokens = std::span(output_tokens).subspan(begin, end - begin);
    part.problem = part_problem[number];
    part.problem_names = local_names;
    part.has_token_counts = true;
    table.add(part);
  }
};

SamplingOptions options_of(const OrderedJson& change) {
  OrderedJson o = golden()["base"];
  o.update(change);
  SamplingOptions out;
  out.seed = o["seed"].get<std::int64_t>();
  if (!o["n_samples"].is_null()) out.n_samples = o["n_samples"].get<std::int64_t>();
  out.shuffle = o["shuffle"];
  out.balance_correct = o["balance_correct"];
  out.correct_ratio = o["correct_ratio"];
  out.on_shortage = o["on_shortage"] == "cap" ? OnShortage::cap : OnShortage::error;
  out.use_pairwise = o["use_pairwise"];
  if (!o["max_pairs_per_problem"].is_null())
    out.max_pairs_per_problem = o["max_pairs_per_problem"].get<std::int64_t>();
  out.use_length_balanced = o["use_length_balanced"];
  out.length_bins = o["length_bins"].get<std::vector<std::int64_t>>();
  for (const auto& [name, range] : o["difficulty_bins"].items())
    out.difficulty_bins.push_back({name, range[0].get<double>(), range[1].get<double>()});
  for (const auto& [name, weight] : o["difficulty_weights"].items())
    out.difficulty_weights[name] = weight;
  for (const auto& stage : o["curriculum_schedule"]) {
    config::CurriculumPhase phase{stage["epoch_range"][0], stage["epoch_range"][1], {}};
    for (const auto& [name, weight] : stage["difficulty_weights"].items())
      phase.difficulty_weights[name] = weight;
    out.curriculum_schedule.push_back(phase);
  }
  out.curriculum_learning = !out.curriculum_schedule.empty();
  return out;
}

SampleList draw(const RowTable& table, const SamplingOptions& options, const std::string& prefix,
                DrawReport* report = nullptr) {
  DrawReport local;
  const DrawRequest request{table,
                            options,
                            prefix,
                            static_cast<std::uint64_t>(options.n_samples.value_or(0)),
                            !options.n_samples,
                            options.difficulty_weights};
  return draw_samples(request, report ? *report : local);
}

OrderedJson as_json(const SampleList& list) {
  if (!list.paired) return list.rows;
  OrderedJson pairs = OrderedJson::array();
  for (const RowPair& pair : list.pairs)
    pairs.push_back({pair.positive, pair.negative, pair.length_bin});
  return pairs;
}

TEST(Sampling, DrawsTheGoldenLists) {
  const GoldenTable golden_table;
  int compared = 0;
  for (const auto& item : golden()["cases"]) {
    SCOPED_TRACE(item["name"].get<std::string>());
    const SamplingOptions options = options_of(item["options"]);
    if (item.contains("short")) {
      EXPECT_WMTP_ERROR(draw(golden_table.table, options, ""), ErrorKind::data, "wanted");
      continue;
    }
    EXPECT_EQ(as_json(draw(golden_table.table, options, "")), item["list"]);
    EXPECT_EQ(as_json(draw(golden_table.table, options, "validation/")), item["validation"]);
    EXPECT_EQ(as_json(draw(golden_table.table, options, "epoch/3/")), item["epoch 3"]);
    ++compared;
  }
  EXPECT_GE(compared, 20);
}

TEST(Sampling, TheCutIntoFilesChangesNothing) {
  const GoldenTable one, three(3);
  for (const auto& item : golden()["cases"]) {
    if (item.contains("short")) continue;
    SCOPED_TRACE(item["name"].get<std::string>());
    const SamplingOptions options = options_of(item["options"]);
    const SampleList a = draw(one.table, options, ""), b = draw(three.table, options, "");
    EXPECT_EQ(as_json(a), as_json(b));
    EXPECT_EQ(a.digest(), b.digest());
  }
}

TEST(Sampling, CurriculumDrawsTheGoldenEpochs) {
  const GoldenTable golden_table;
  for (const auto& item : golden()["curricula"]) {
    SCOPED_TRACE(item["name"].get<std::string>());
    const SamplingOptions options = options_of(item["options"]);
    for (std::uint64_t epoch = 0; epoch < item["epochs"].size(); ++epoch) {
      DrawReport report;
      const CurriculumEpoch made = draw_curriculum(golden_table.table, options, epoch, report);
      OrderedJson all = OrderedJson::array();
      ASSERT_EQ(made.pieces.size(), item["epochs"][epoch].size());
      for (std::size_t i = 0; i < made.pieces.size(); ++i) {
        const auto& piece = item["epochs"][epoch][i];
        EXPECT_EQ(made.pieces[i].count, piece["count"].get<std::uint64_t>());
        for (const auto& sample : piece["list"]) all.push_back(sample);
        const EpochOrder order(static_cast<std::uint64_t>(options.seed),
                               "order/" + std::to_string(epoch) + "/" + std::to_string(i),
                               made.pieces[i].count);
        for (std::uint64_t place = 0; place < made.pieces[i].count; ++place)
          EXPECT_EQ(order(place), piece["order"][place].get<std::uint64_t>());
      }
      EXPECT_EQ(as_json(made.list), all);
    }
  }
}

TEST(Sampling, CurriculumPiecesHoldTheirDifficulties) {
  const GoldenTable golden_table;
  SamplingOptions options = options_of(golden()["curricula"][0]["options"]);
  DrawReport report;
  const CurriculumEpoch epoch = draw_curriculum(golden_table.table, options, 0, report);
  for (std::uint64_t i = 0; i < 14; ++i) {  // floor(.35 * 40): easy only
    const auto difficulty = golden_table.table.difficulty(epoch.list.rows[i]);
    EXPECT_TRUE(difficulty >= 1 && difficulty <= 3) << difficulty;
  }
  std::map<bool, int> easy;
  for (std::uint64_t i = 14; i < 40; ++i) {
    const auto difficulty = golden_table.table.difficulty(epoch.list.rows[i]);
    EXPECT_TRUE(difficulty >= 1 && difficulty <= 7) << difficulty;
    ++easy[difficulty <= 3];
  }
  EXPECT_EQ(easy[true], 13);
  EXPECT_EQ(easy[false], 13);
  EXPECT_EQ(report.num_drawn_again, 0u);
  const std::set<std::uint32_t> unique(epoch.list.rows.begin(), epoch.list.rows.end());
  EXPECT_EQ(unique.size(), 40u);
}

TEST(Sampling, QuotasFollowTheRule) {
  for (const auto& item : golden()["quotas"]) {
    std::vector<BinQuota> bins;
    for (std::size_t i = 0; i < item["weights"].size(); ++i)
      bins.push_back({"b" + std::to_string(i), item["weights"][i], item["counts"][i], 0});
    assign_quotas(item["n"], bins);
    for (std::size_t i = 0; i < bins.size(); ++i)
      EXPECT_EQ(bins[i].quota, item["quotas"][i].get<std::uint64_t>()) << item;
  }
}

TEST(Sampling, ShortageNamesBinWantedAvailable) {
  std::vector<BinQuota> bins{{"easy", 1, 3, 7}, {"hard", 1, 9, 7}};
  EXPECT_WMTP_ERROR(settle_shortages({14}, bins, OnShortage::error), ErrorKind::data,
                    "bin \"easy\" is short: 7 rows wanted, 3 available (data_sampling.n_samples); "
                    "lower data_sampling.n_samples, change the weights of the bins or set "
                    "data_sampling.on_shortage: cap");
  settle_shortages({14}, bins, OnShortage::cap);
  EXPECT_EQ(bins[0].quota, 3u);
  EXPECT_EQ(bins[1].quota, 7u);
}

TEST(Sampling, PairsAreUniqueAndOfOneProblem) {
  const GoldenTable golden_table;
  for (const char* name : {"pairs, all", "length pairs, all"}) {
    const auto& cases = golden()["cases"];
    const auto item =
        std::find_if(cases.begin(), cases.end(), [&](const auto& c) { return c["name"] == name; });
    const SamplingOptions options = options_of((*item)["options"]);
    const SampleList list = draw(golden_table.table, options, "");
    std::set<std::uint32_t> rows;
    std::map<int, int> correct_lengths, incorrect_lengths;
    for (const RowPair& pair : list.pairs) {
      EXPECT_TRUE(rows.insert(pair.positive).second && rows.insert(pair.negative).second);
      EXPECT_EQ(golden_table.table.problem(pair.positive),
                golden_table.table.problem(pair.negative));
      EXPECT_TRUE(golden_table.table.is_correct(pair.positive));
      EXPECT_FALSE(golden_table.table.is_correct(pair.negative));
      const auto bin = [&](std::uint32_t row) {
        return std::upper_bound(options.length_bins.begin(), options.length_bins.end(),
                                std::int64_t{golden_table.table.output_tokens(row)}) -
               options.length_bins.begin();
      };
      ++correct_lengths[static_cast<int>(bin(pair.positive))];
      ++incorrect_lengths[static_cast<int>(bin(pair.negative))];
    }
    if (options.use_length_balanced) {
      EXPECT_EQ(correct_lengths, incorrect_lengths);
    }
  }
}

TEST(Sampling, LengthBalanceNeedsTokenCounts) {
  RowTable table;
  RowTable::Part part;
  part.num_rows = 2;
  table.add(part);
  table.set_candidates({true, true});
  SamplingOptions options;
  options.use_pairwise = options.use_length_balanced = true;
  EXPECT_WMTP_ERROR(draw(table, options, ""), ErrorKind::data, "wmtp data index");
}

TEST(EpochOrder, MatchesTheGoldenPermutations) {
  for (const auto& item : golden()["orders"]) {
    const EpochOrder order(item["seed"], item["name"].get<std::string>(), item["n"]);
    for (std::uint64_t i = 0; i < item["order"].size(); ++i)
      EXPECT_EQ(order(i), item["order"][i].get<std::uint64_t>()) << item;
  }
}

TEST(EpochOrder, IsABijectionForEverySize) {
  for (std::uint64_t n = 1; n < 300; ++n) {
    const EpochOrder order(n * 977, "order/5", n);
    std::vector<bool> seen(n);
    for (std::uint64_t i = 0; i < n; ++i) {
      ASSERT_LT(order(i), n);
      ASSERT_FALSE(seen[order(i)]);
      seen[order(i)] = true;
    }
  }
}

}  // namespace
}  // namespace wmtp::data
