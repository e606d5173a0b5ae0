// Optimizer recipes and checkpoints: any world size reads what any other wrote, and every recipe
// goes on from every other.
#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "run/saved_law_runs.h"
#include "support/multi_process.h"
#include "support/temp_dir.h"

namespace wmtp::test {
namespace {

using optim::Recipe;
using parallel::Strategy;

constexpr int kMostRanks = 5;
constexpr Recipe kNewRecipes[] = {Recipe::bf16_moments, Recipe::int8};

struct RecipeRank {
  RecipeRank() {
    at::set_num_threads(1);
    session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
    session->connect();
  }
  std::unique_ptr<comm::ProcessGroupSession> session;
};

LawLayout recipe_layout(Recipe recipe, int world, bool lora) {
  constexpr Strategy kAll[] = {Strategy::no_shard, Strategy::full_shard, Strategy::shard_grad_op};
  LawLayout layout{.strategy = world == 4 ? Strategy::hybrid_shard : kAll[world % 3],
                   .shard_group_size = half_of(world),
                   .num_micro_batches = 1,
                   .recipe = recipe};
  if (lora) layout.lora = model::checked({.rank = 3}, odd_config());
  return layout;
}

fs::path place_of(const fs::path& root, Recipe recipe, bool lora, const std::string& what) {
  return root / fmt::format("{}-{}-{}", name_of(recipe), lora ? "lora" : "full", what);
}

// Goes on from what one rank saved, and saves that again as these ranks have it.
void read_and_save() {
  RecipeRank rank;
  const int world = rank.session->world();
  for (const Recipe recipe : kNewRecipes)
    for (const bool lora : {false, true}) {
      const fs::path root = worker_env("RECIPE_DIR");
      LawRun run(odd_config(), recipe_layout(recipe, world, lora), groups_of_test(*rank.session));
      run::FoundState found = find(place_of(root, recipe, lora, "1"), *rank.session);
      run::restore(found, run.model(), nullptr, {});
      save(run.model(), *rank.session, place_of(root, recipe, lora, std::to_string(world)),
           state_at(2));
    }
  rank.session->finish();
}

TEST(RecipeResumeMultirank, OneToFiveRanksHoldTheSameBits) {
  if (is_worker()) return read_and_save();
  const TempDir folder;
  auto session = comm::ProcessGroupSession::start(comm::LaunchEnv{}, {});
  session->connect();
  const parallel::Groups groups{&session->gather_group(), &session->reduce_group()};
  for (const Recipe recipe : kNewRecipes)
    for (const bool lora : {false, true}) {
      LawRun run(odd_config(), recipe_layout(recipe, 1, lora), groups);
      for (int step = 0; step < 2; ++step) run.step();
      save(run.model(), *session, place_of(folder.path(), recipe, lora, "1"), state_at(2));
    }
  for (int world = 2; world <= kMostRanks; ++world)
    expect_success(launch_ranks(
        {.ranks = world, .timeout_s = 300, .env = {{"RECIPE_DIR", folder.path().string()}}}));
  for (const Recipe recipe : kNewRecipes)
    for (const bool lora : {false, true}) {
      const auto alone = tensors_of(place_of(folder.path(), recipe, lora, "1"), *session);
      const std::string lora_b = lora ? "lora_B.weight" : "weight";
      const std::string codes =
          "optim.state.model.layers.0.self_attn.v_proj." + lora_b + ".exp_avg.codes";
      EXPECT_EQ(alone.contains(codes), recipe == Recipe::int8);
      for (int world = 2; world <= kMostRanks; ++world)
        EXPECT_EQ(
            tensors_of(place_of(folder.path(), recipe, lora, std::to_string(world)), *session),
            alone)
            << name_of(recipe) << (lora ? " lora " : " ") << world;
    }
}

class RecipeResume : public ::testing::Test {
 protected:
  RecipeResume() : session_(comm::ProcessGroupSession::start(comm::LaunchEnv{}, {})) {
    session_->connect();
  }
  parallel::Groups groups() { return {&session_->gather_group(), &session_->reduce_group()}; }
  LawLayout layout(Recipe recipe) { return {.num_micro_batches = 1, .recipe = recipe}; }

  TempDir folder_;
  std::unique_ptr<comm::ProcessGroupSession> session_;
};

// A whole moment of a shard in fp32, however it is kept.
Tensor numbers_of(const optim::ShardMoments& moments, optim::Moment moment) {
  const optim::MomentLayout& layout = moments.layout();
  std::vector<Tensor> parts;
  if (layout.quantized > 0) {
    const auto kept = moments.view(moment, {0, layout.quantized});
    parts.push_back(at::empty({layout.quantized}, at::kFloat));
    kernels::dequantize(moment, {kept.values, kept.scales}, 0, parts.back());
  }
  if (layout.wide > 0) {
    const layout::Range rest{layout.quantized, layout.quantized + layout.wide};
    parts.push_back(moments.view(moment, rest).values.to(at::kFloat));
  }
  return at::cat(parts);
}

// What is left of those numbers where they are kept as `like` keeps its own.
Tensor as_kept(const Tensor& numbers, const optim::ShardMoments& like, optim::Moment moment) {
  const optim::ShardMoments kept(like.layout(), at::TensorOptions());
  const std::int64_t quantized = like.layout().quantized, wide = like.layout().wide;
  if (quantized > 0) {
    const auto view = kept.view(moment, {0, quantized});
    kernels::quantize(moment, numbers.narrow(0, 0, quantized), {view.values, view.scales});
  }
  if (wide > 0)
    kept.view(moment, {quantized, quantized + wide})
        .values.copy_(numbers.narrow(0, quantized, wide));
  return numbers_of(kept, moment);
}

void expect_converted(LawRun& reader, LawRun& writer, bool same_recipe) {
  for (std::size_t u = 0; u < reader.num_units(); ++u) {
    const layout::Range owned = reader.model().runtime().states()[u].plan.trained.owned(0);
    const Tensor read = reader.master(u).values, written = writer.master(u).values;
    EXPECT_TRUE(read.equal(written.to(read.scalar_type()))) << u;
    const auto& kept = reader.model().optimizer().moments()[u];
    const auto& saved = writer.model().optimizer().moments()[u];
    for (const optim::Moment moment : optim::kMoments) {
      const Tensor numbers = numbers_of(saved, moment).narrow(0, 0, owned.size());
      EXPECT_GT(numbers.abs().max().item<float>(), 0) << "the control";
      Tensor padded = at::zeros({kept.layout().quantized + kept.layout().wide}, at::kFloat);
      padded.narrow(0, 0, owned.size()).copy_(numbers);
      const Tensor wanted = same_recipe ? padded : as_kept(padded, kept, moment);
      EXPECT_TRUE(numbers_of(kept, moment).equal(wanted)) << u;
    }
  }
}

// Each recipe reads the others' checkpoints: converted once, exact where it keeps as much or more.
TEST_F(RecipeResume, RecipesReadEachOther) {
  for (const Recipe from : optim::kRecipes) {
    LawRun writer(odd_config(), layout(from), groups());
    for (int step = 0; step < 2; ++step) writer.step();
    const fs::path place = folder_ / std::string(name_of(from));
    save(writer.model(), *session_, place, state_at(2));
    for (const Recipe to : optim::kRecipes) {
      SCOPED_TRACE(fmt::format("{} -> {}", name_of(from), name_of(to)));
      LawRun reader(odd_config(), layout(to), groups());
      run::FoundState found = find(place, *session_);
      run::restore(found, reader.model(), nullptr, {});
      expect_converted(reader, writer, from == to);
      EXPECT_TRUE(reader.step().applied);
    }
  }
}

}  // namespace
}  // namespace wmtp::test
