// Checkpoints of masters in planes, with bf16 compute: they hold joined numbers, so that runs with
// masters in planes and in one tensor go on from each other to the last bit, on any number of
// ranks.
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

struct Kept {
  const char* name;
  Recipe recipe;
  bool in_planes;
};
constexpr Kept kWhole{"whole", Recipe::fp32, false}, kPlanes{"planes", Recipe::fp32, true},
    kNarrow{"bf16_moments", Recipe::bf16_moments, true};

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
  Bf16Run make(const Kept& kept) {
    return Bf16Run(bf16_config(), {.recipe = kept.recipe, .split_masters = kept.in_planes},
                   {&session_->gather_group(), &session_->reduce_group()});
  }
  fs::path saved(const Kept& kept) {
    Bf16Run writer = make(kept);
    for (int step = 0; step < kSavedSteps; ++step) writer.step();
    fs::path place = folder_ / kept.name;
    save(writer.model(), *session_, place, state_at(kSavedSteps));
    return place;
  }

  TempDir folder_;
  std::unique_ptr<comm::ProcessGroupSession> session_;
};

TEST_F(SplitResume, GoesOnWithTheBitsOfAStraightRun) {
  for (const auto& [from, to] : {std::pair{kWhole, kPlanes}, std::pair{kPlanes, kWhole},
                                 std::pair{kPlanes, kPlanes}, std::pair{kNarrow, kNarrow}}) {
    SCOPED_TRACE(fmt::format("{} -> {}", from.name, to.name));
    Bf16Run straight = make(from), resumed = make(to);
    for (int step = 0; step < kSavedSteps; ++step) straight.step();
    restore(resumed, saved(from), *session_);
    EXPECT_TRUE(equal(resumed.masters(), straight.masters()));
    for (int step = 0; step < 2; ++step) EXPECT_EQ(resumed.step().loss, straight.step().loss);
    EXPECT_TRUE(equal(resumed.masters(), straight.masters()));
    EXPECT_TRUE(equal(resumed.moments(), straight.moments()));
    fs::remove_all(folder_ / from.name);
  }
}

// Planes lose nothing of the master whatever the moments become.
TEST_F(SplitResume, EveryRecipeGoesOnFromPlanes) {
  const fs::path place = saved(kNarrow);
  Bf16Run writer = make(kNarrow);
  restore(writer, place, *session_);
  for (const Recipe to : optim::kRecipes) {
    Bf16Run reader = make({"", to, optim::splits_masters(to)});
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
  for (const auto& [from, to] : {std::pair{kWhole, kPlanes}, std::pair{kPlanes, kWhole}}) {
    const auto strategy = session->world() == 2 ? Strategy::no_shard : Strategy::full_shard;
    Bf16Run run(bf16_config(),
                {.strategy = strategy, .recipe = to.recipe, .split_masters = to.in_planes},
                groups_of_test(*session));
    restore(run, root / from.name, *session);
    save(run.model(), *session, root / fmt::format("{}-{}", to.name, session->world()),
         state_at(kSavedSteps));
  }
  session->finish();
}

class SplitResumeMultirank : public SplitResume {};

TEST_F(SplitResumeMultirank, TwoAndThreeRanksHoldTheSameBits) {
  if (is_worker()) return read_split_and_save();
  const auto alone = tensors_of(saved(kWhole), *session_);
  EXPECT_EQ(tensors_of(saved(kPlanes), *session_), alone);
  for (const int world : {2, 3}) {
    expect_success(launch_ranks(
        {.ranks = world, .timeout_s = 300, .env = {{kFolder, folder_.path().string()}}}));
    for (const Kept& kept : {kWhole, kPlanes})
      EXPECT_EQ(tensors_of(folder_ / fmt::format("{}-{}", kept.name, world), *session_), alone)
          << kept.name << " " << world;
  }
}

}  // namespace
}  // namespace wmtp::test
