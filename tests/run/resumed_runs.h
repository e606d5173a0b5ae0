// A run that saves after every step, and runs that go on from each of its checkpoints.
// With WMTP_SOAK (make soak) every cut runs to the end; otherwise cuts go on for some steps (the
// state there being equal, the rest follows from the next cut).
#pragma once
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "run/tiny_run.h"
#include "support/multi_process.h"
#include "support/soak.h"
#include "support/temp_dir.h"
#include "wmtp/core/failpoint.h"

namespace wmtp::test {

namespace fs = std::filesystem;

inline constexpr std::int64_t kStepsAfterCut = 3;

inline bool soak() {
  return soak_factor() > 1;
}

inline std::string save_dir(const fs::path& folder) {
  return "checkpoint.save_dir=" + folder.string();
}

inline void arm(const std::string& spec, int rank = 0) {
  failpoint::configure({.spec = spec, .rank = rank, .log_path = {}});
}

// One folder of runs: the straight one, saved after every step, and those that go on from it.
class Runs {
 public:
  using Session = std::unique_ptr<comm::ProcessGroupSession>;
  Runs(Session& session, fs::path folder, TinyStage stage, std::vector<std::string> keys = {})
      : session_(session),
        folder_(std::move(folder)),
        stage_(std::move(stage)),
        keys_(std::move(keys)) {}

  fs::path straight_dir() const { return folder_ / (name() + "-straight"); }
  fs::path straight(std::int64_t step) const { return straight_dir() / checkpoint_at(step); }

  // The eighth step is spoiled, so that skipped steps are part of the story.
  void run_straight() {
    renew();
    arm("step.loss:nth=8=damage", session_->rank());
    std::vector<std::string> overrides = keys_;
    overrides.insert(overrides.end(), {save_dir(straight_dir()), "checkpoint.save_every_steps=1"});
    TinyRun run(*session_, folder_, stage_, overrides);
    ASSERT_EQ(run.run(), run::RunEnd::completed);
    arm("", session_->rank());
  }

  // Goes on from `checkpoint` (after the spoiled step), saves into a folder of its own; the hash of
  // its last state and the step of that.
  struct End {
    std::string hash;
    std::int64_t step = 0;
  };
  End check_cancelled(const fs::path& checkpoint, std::optional<std::int64_t> stop_at,
                      std::vector<std::string> overrides = {}) {
    const fs::path out = folder_ / fmt::format("{}-cut-{}", name(), ++num_runs_);
    overrides.insert(overrides.begin(),
                     {save_dir(out), "checkpoint.resume=" + checkpoint.string()});
    overrides.insert(overrides.begin(), keys_.begin(), keys_.end());
    End end;
    renew();
    {
      TinyRun run(*session_, folder_, stage_, std::move(overrides));
      run.run(stop_at);
      end.step = run.trainer().state().step;
    }
    session_->gather_group().barrier("test");
    end.hash = state_hash(out / checkpoint_at(end.step));
    session_->gather_group().barrier("test");
    if (session_->rank() == 0) fs::remove_all(out);
    return end;
  }

  // Before the spoiled step the point must be armed anew.
  End cut_at(std::int64_t step, bool to_the_end) {
    arm(step < 8 ? fmt::format("step.loss:nth={}=damage", 8 - step) : "", session_->rank());
    return check_cancelled(straight(step),
                           to_the_end ? std::nullopt : std::optional(step + kStepsAfterCut));
  }

  void expect_all_cuts(std::int64_t every, bool to_the_end) {
    run_straight();
    for (std::int64_t step = 1; step < kTinySteps; step += every) {
      const End end = cut_at(step, to_the_end || soak());
      EXPECT_GE(end.step, std::min(step + kStepsAfterCut, kTinySteps));
      EXPECT_EQ(end.hash, state_hash(straight(end.step))) << name() << " cut after step " << step;
    }
  }

 private:
  // The order of collectives is compared once in a session: each run has its own.
  void renew() {
    if (session_->world() == 1) return;
    static int number = 0;
    comm::LaunchEnv launch = session_->launch();
    const fs::path meet = fs::path(worker_folder()) / fmt::format("meet-{}", ++number);
    if (session_->rank() == 0) {
      fs::create_directories(meet);
      fs::permissions(meet, fs::perms::owner_all);
    }
    session_->gather_group().barrier("meet");
    session_->finish();
    launch.rendezvous = "file://" + meet.string();
    session_ = comm::ProcessGroupSession::start(launch, {});
    session_->connect();
  }
  std::string name() const { return stage_.stage + (stage_.lora ? "-lora" : ""); }

  Session& session_;
  fs::path folder_;
  TinyStage stage_;
  std::vector<std::string> keys_;
  int num_runs_ = 0;
};

class ExactResume : public ::testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    make_tiny_data(folder_.path());
  }
  void TearDown() override { arm(""); }

  TempDir folder_;
  std::unique_ptr<comm::ProcessGroupSession> session_ = single_session();
};

}  // namespace wmtp::test
