// Checkpoints of masters in planes, with bf16 compute: they hold joined numbers, so that `fp32` and
// `split` go on from each other to the last bit, on any number of ranks.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "run/saved_law_runs.h"
#include "support/multi_process.h"
#include "support/runs/bf16_run.h"
#include "support/temp_dir.h"

namespace wmtp::test {
namespace {

using optim::Recipe;
using parallel::Strategy;

constexpr int kSavedSteps = 2;

void restore(Bf16Run& run, const fs::path& place, comm::ProcessGroupSession& session) {
  run::FoundState found = find(place, session);
  run::restore(found, run.model(), nullptr, {});
  run.skip_steps(kSavedSteps);
}

class SplitResume : public ::testing::Test {
 protected:
  SplitResume() : session_(comm::ProcessGroupSession::start(comm::LaunchEnv{}, {})) {
    session_->connect();
  }
  Bf16Run make(Recipe recipe) {
    return Bf16Run(bf16_config(), {.recipe = recipe},
                   {&session_->gather_group(), &session_->reduce_group()});
  }
  fs::path saved(Recipe recipe) {
    Bf16Run writer = make(recipe);
    for (int step = 0; step < kSavedSteps; ++step) writer.step();
    fs::path place = folder_ / std::string(name_of(recipe));
    save(writer.model(), *session_, place, state_at(kSavedSteps));
    return place;
  }

  TempDir folder_;
  std::unique_ptr<comm::ProcessGroupSession> session_;
};

TEST_F(SplitResume, GoesOnWithTheBitsOfAStraightRun) {
  for (const auto& [from, to] :
       {std::pair{Recipe::fp32, Recipe::split}, std::pair{Recipe::split, Recipe::fp32},
        std::pair{Recipe::split, Recipe::split},
        std::pair{Recipe::bf16_moments, Recipe::bf16_moments}}) {
    SCOPED_TRACE(fmt::format("{} -> {}", name_of(from), name_of(to)));
    Bf16Run straight = make(from), resumed = make(to);
    for (int step = 0; step < kSavedSteps; ++step) straight.step();
    restore(resumed, saved(from), *session_);
    EXPECT_TRUE(equal(resumed.masters(), straight.masters()));
    for (int step = 0; step < 2; ++step) EXPECT_EQ(resumed.step().loss, straight.step().loss);
    EXPECT_TRUE(equal(resumed.masters(), straight.masters()));
    EXPECT_TRUE(equal(resumed.moments(), straight.moments()));
    fs::remove_all(folder_ / std::string(name_of(from)));
  }
}

// Planes lose nothing of the master whatever the moments become.
TEST_F(SplitResume, EveryRecipeGoesOnFromPlanes) {
  const fs::path place = saved(Recipe::bf16_moments);
  Bf16Run writer = make(Recipe::bf16_moments);
  restore(writer, place, *session_);
  for (const Recipe to : optim::kRecipes) {
    Bf16Run reader = make(to);
    restore(reader, place, *session_);
    const std::vector<Tensor> found = reader.masters(), wanted = writer.masters();
    for (std::size_t u = 0; u < wanted.size(); ++u)
      EXPECT_TRUE(
          found[u].narrow(0, 0, 32).equal(wanted[u].narrow(0, 0, 32).to(found[u].scalar_type())))
          << name_of(to) << " " << u;
    EXPECT_TRUE(reader.step().applied);
  }
}

constexpr const char* kFolder = "SPLIT_DIR";

// Goes on from what one rank saved in one way, and saves it as these ranks have it in the other.
void read_split_and_save() {
  at::set_num_threads(1);
  auto session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  const fs::path root = worker_env(kFolder);
  for (const auto& [from, to] :
       {std::pair{Recipe::fp32, Recipe::split}, std::pair{Recipe::split, Recipe::fp32}}) {
    const auto strategy = session->world() == 2 ? Strategy::no_shard : Strategy::full_shard;
    Bf16Run run(bf16_config(), {.strategy = strategy, .recipe = to}, groups_of_test(*session));
    restore(run, root / std::string(name_of(from)), *session);
    save(run.model(), *session, root / fmt::format("{}-{}", name_of(to), session->world()),
         state_at(kSavedSteps));
  }
  session->finish();
}

class SplitResumeMultirank : public SplitResume {};

TEST_F(SplitResumeMultirank, TwoAndThreeRanksHoldTheSameBits) {
  if (is_worker()) return read_split_and_save();
  const auto alone = tensors_of(saved(Recipe::fp32), *session_);
  EXPECT_EQ(tensors_of(saved(Recipe::split), *session_), alone);
  for (const int world : {2, 3}) {
    expect_success(launch_ranks(
        {.ranks = world, .timeout_s = 300, .env = {{kFolder, folder_.path().string()}}}));
    for (const Recipe recipe : {Recipe::fp32, Recipe::split})
      EXPECT_EQ(tensors_of(folder_ / fmt::format("{}-{}", name_of(recipe), world), *session_),
                alone)
          << name_of(recipe) << " " << world;
  }
}

}  // namespace
}  // namespace wmtp::test
