// Checkpoints of one world size and strategy read by another: every element of every tensor must
// arrive, bit for bit. Values are a function of name and index, so no run needs to be compared.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "run/saved_law_runs.h"
#include "support/multi_process.h"
#include "support/soak.h"
#include "support/temp_dir.h"

namespace wmtp::test {
namespace {

namespace fs = std::filesystem;
using parallel::Strategy;

constexpr int kWorlds = 4;
constexpr int kStrategies = 4;

float value_of(const std::string& name, std::int64_t index) {
  std::uint64_t hash = 14695981039346656037ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  hash = (hash + static_cast<std::uint64_t>(index)) * 0x9E3779B97F4A7C15ull;
  return static_cast<float>(hash >> 40) / (1 << 24);
}

void write_values(const std::string& name, std::int64_t begin, const Tensor& out) {
  const Tensor values = at::empty({out.numel()}, at::kFloat);
  float* at = values.data_ptr<float>();
  for (std::int64_t i = 0; i < out.numel(); ++i) at[i] = value_of(name, begin + i);
  out.copy_(values);
}

// Writer and reader of a pair have different strategies more often than not; a shift gives them
// others.
Strategy strategy_of(int world, bool reads) {
  constexpr Strategy kAll[] = {Strategy::hybrid_shard, Strategy::full_shard, Strategy::no_shard,
                               Strategy::shard_grad_op};
  const std::string shift = worker_env("RESHARD_SHIFT");
  return kAll[(world + (reads ? 1 : 0) + (shift.empty() ? 0 : std::stoi(shift))) % kStrategies];
}

bool is_tied() {
  return worker_env("RESHARD_TIED") == "1";
}

struct ReshardingRank {
  ReshardingRank() {
    at::set_num_threads(1);
    session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
    session->connect();
  }
  parallel::Groups groups() { return groups_of_test(*session); }
  std::unique_ptr<comm::ProcessGroupSession> session;
};

void fill_everything(training::TrainableModel& model) {
  model.runtime().fill([](const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
    write_values(param.name, begin, out);
  });
  const auto has_numbers = [](const std::string& name) {
    return name.ends_with(".codes") ? std::nullopt : std::optional(kFloat32);
  };
  run::load_moments(model, {has_numbers, write_values});
}

// Everything this rank holds in `flat`, whatever its strategy makes it hold.
std::int64_t count_wrong(const layout::BucketPlan& plan, int rank, const Tensor& flat,
                         const std::function<std::string(const std::string&)>& name_of) {
  std::int64_t wrong = 0;
  const Tensor held = flat.to(at::kFloat);
  for (const layout::Piece& piece : plan.pieces(rank)) {
    const Tensor expected = at::empty({piece.in_param.size()}, flat.options());
    write_values(name_of(plan.params()[piece.param].name), piece.in_param.begin, expected);
    wrong += held.narrow(0, piece.in_shard, piece.in_param.size())
                 .ne(expected.to(at::kFloat))
                 .sum()
                 .item<std::int64_t>();
  }
  return wrong;
}

std::int64_t count_wrong(training::TrainableModel& model) {
  const parallel::Runtime& runtime = model.runtime();
  const int rank = runtime.placement().shard_rank();
  const auto same = [](const std::string& name) { return name; };
  std::int64_t wrong = 0;
  std::size_t trained = 0;
  for (const parallel::UnitState& state : runtime.states()) {
    if (state.frozen.defined()) {
      const bool whole = state.plan.frozen.shard_numel() == state.plan.frozen.padded_numel();
      wrong += count_wrong(state.plan.frozen, whole ? 0 : rank, state.frozen, same);
    }
    if (!state.master.defined()) continue;
    wrong += count_wrong(state.plan.trained, rank, state.master.joined(), same);
    const layout::Range all{0, state.plan.trained.shard_numel()};
    for (const optim::Moment moment : optim::kMoments)
      wrong += count_wrong(
          state.plan.trained, rank, model.optimizer().moments()[trained].view(moment, all).values,
          [moment](const std::string& name) { return run::moment_name(name, moment); });
    ++trained;
  }
  return wrong;
}

fs::path folder_of(int world, bool lora) {
  return fs::path(worker_env("RESHARD_DIR")) / ((lora ? "lora-" : "full-") + std::to_string(world));
}

LawLayout layout_of(Strategy strategy, int world, bool lora) {
  LawLayout layout{
      .strategy = strategy, .shard_group_size = half_of(world), .num_micro_batches = 1};
  if (lora) layout.lora = model::checked({.rank = 3}, odd_config());
  return layout;
}

void write_as(int world) {
  ReshardingRank rank;
  for (const bool lora : {false, true}) {
    LawRun run(odd_config(is_tied()), layout_of(strategy_of(world, false), world, lora),
               rank.groups());
    fill_everything(run.model());
    EXPECT_EQ(count_wrong(run.model()), 0);
    run::SavedState state;
    state.train.step = 7;
    state.applied_updates = 5;
    save(run.model(), *rank.session, folder_of(world, lora), state);
  }
  rank.session->finish();
}

void read_all_as(int world) {
  ReshardingRank rank;
  for (const bool lora : {false, true}) {
    for (int writer = 1; writer <= kWorlds; ++writer) {
      LawRun run(odd_config(is_tied()), layout_of(strategy_of(world, true), world, lora),
                 rank.groups());
      EXPECT_GT(count_wrong(run.model()), 0) << "the control: a fresh model has other values";
      run::FoundState found = find(folder_of(writer, lora), *rank.session);
      run::restore(found, run.model(), nullptr, {});
      EXPECT_EQ(count_wrong(run.model()), 0) << writer << " -> " << world << " ranks";
      EXPECT_EQ(run.model().optimizer().applied_steps().item<std::int64_t>(), 5);
    }
  }
  rank.session->finish();
}

void work() {
  const int world = std::stoi(worker_env("RESHARD_WORLD"));
  return worker_env("RESHARD_PHASE") == "write" ? write_as(world) : read_all_as(world);
}

void launch_phase(const TempDir& folder, const std::string& phase, int shift, bool tied,
                  int first_world = 1) {
  for (int world = first_world; world <= kWorlds; ++world)
    expect_success(launch_ranks({.ranks = world,
                                 .timeout_s = 300,
                                 .env = {{"RESHARD_DIR", folder.path().string()},
                                         {"RESHARD_PHASE", phase},
                                         {"RESHARD_SHIFT", std::to_string(shift)},
                                         {"RESHARD_TIED", tied ? "1" : "0"},
                                         {"RESHARD_WORLD", std::to_string(world)}}}));
}

TEST(ReshardMultirank, SixteenPairsOfWorldSizes) {
  if (is_worker()) return work();
  const TempDir folder;
  launch_phase(folder, "write", 0, false);
  launch_phase(folder, "read", 0, false);
  launch_phase(folder, "read", kStrategies - 1, false, kWorlds);  // two groups read
}

TEST(ReshardMultirank, EveryPairOfStrategiesTiedOrNotInTheLongTier) {
  if (is_worker()) return work();
  if (soak_factor() == 1) GTEST_SKIP() << "WMTP_SOAK is not set";
  int num_loads = 0;
  for (const bool tied : {false, true})
    for (int writes = 0; writes < kStrategies; ++writes) {
      const TempDir folder;
      launch_phase(folder, "write", writes, tied);
      for (int reads = 0; reads < (soak_factor() >= 50 ? kStrategies : 1); ++reads) {
        launch_phase(folder, "read", reads, tied);
        num_loads += 2 * kWorlds * kWorlds;  // whole and with adapters
      }
    }
  std::printf("G12: %d loads by other world sizes and strategies, every element bit-equal\n",
              num_loads);
}

// fp16's loss scale is part of the state; left out, the reader's is that of a fresh run.
TEST(Reshard, LossScaleComesBack) {
  const TempDir folder;
  auto session = comm::ProcessGroupSession::start(comm::LaunchEnv{}, {});
  session->connect();
  const parallel::Groups groups{&session->gather_group(), &session->reduce_group()};
  const LawLayout layout{.num_micro_batches = 1,
                         .loss_scale = optim::LossScaleSettings{1024, /*growth_interval=*/2}};
  LawRun writer(odd_config(), layout, groups);
  for (int i = 0; i < 5; ++i) writer.step();
  for (const bool omitted : {false, true}) {
    run::SavedState state;
    state.train.step = omitted ? 6 : 5;
    if (!omitted) state.loss_scale = writer.model().loss_scale()->state();
    save(writer.model(), *session, folder.path(), state);
    LawRun reader(odd_config(), layout, groups);
    run::FoundState found = find(folder.path(), *session);
    run::restore(found, reader.model(), nullptr, {});
    EXPECT_EQ(reader.model().loss_scale()->state() == writer.model().loss_scale()->state(),
              !omitted);
  }
}

}  // namespace
}  // namespace wmtp::test
