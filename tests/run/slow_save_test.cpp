// Saves that take long: when the training thread waits for them, and when the run fails meanwhile.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <future>

#include "run/tiny_run.h"
#include "support/temp_dir.h"
#include "wmtp/core/failpoint.h"

namespace wmtp::test {
namespace {

using std::chrono::milliseconds;

// A run of three steps that saves after the second, with a watchdog that only takes notes.
class SlowSave : public testing::Test {
 protected:
  SlowSave() {
    make_tiny_data(folder_.path());
    comm::SessionOptions options;
    options.leave = [this](const comm::Failure& failure) { left_.set_value(failure); };
    session_ = comm::ProcessGroupSession::start(comm::LaunchEnv{}, options);
    session_->connect();
  }
  ~SlowSave() override { failpoint::configure({}); }

  std::unique_ptr<TinyRun> start(const std::string& failpoints, bool async, milliseconds limit) {
    failpoint::configure({.spec = failpoints, .rank = 0, .log_path = {}});
    return std::make_unique<TinyRun>(
        *session_, folder_.path(), TinyStage{"baseline"},
        std::vector<std::string>{
            "training.max_steps=3", "checkpoint.save_every_steps=2", "checkpoint.save_final=false",
            fmt::format("checkpoint.async={}", async), "checkpoint.save_dir=" + saves().string()},
        limit);
  }
  std::filesystem::path saves() const { return folder_ / "saves"; }
  bool has_left() { return noted_.wait_for(milliseconds(0)) == std::future_status::ready; }

  TempDir folder_;
  std::promise<comm::Failure> left_;
  std::future<comm::Failure> noted_ = left_.get_future();
  std::unique_ptr<comm::ProcessGroupSession> session_;
};

TEST_F(SlowSave, AWriteThatDoesNotReturnIsAHang) {
  start("save.shard.half=sleep:6000", /*async=*/false, milliseconds(2000))->run();
  ASSERT_TRUE(has_left());
  const comm::Failure failure = noted_.get();
  EXPECT_EQ(failure.code, 75);
  EXPECT_NE(failure.message.find("no progress in section 'save' (step 2)"), std::string::npos)
      << failure.message;
}

TEST_F(SlowSave, TheLastOneIsWaitedForUnderTheSameLimit) {
  start("save.shard.half=sleep:6000", /*async=*/true, milliseconds(2000))->run();
  ASSERT_TRUE(has_left());
  EXPECT_NE(noted_.get().message.find("no progress in section 'end of the run'"),
            std::string::npos);
}

// The control: longer than the limit in all, but never without progress for so long.
TEST_F(SlowSave, ProgressIsNoHang) {
  std::string slow;
  for (const char* point : {"open", "half", "written", "closed"})
    slow += fmt::format("save.shard.{}:nth=1+=sleep:700;", point);
  slow.pop_back();
  const auto begun = Clock::now();
  start(slow, /*async=*/false, milliseconds(2500))->run();
  EXPECT_GT(seconds_since(begun), 2 * 2.5);
  EXPECT_FALSE(has_left());
  EXPECT_TRUE(std::filesystem::exists(saves() / checkpoint_at(2)));
}

TEST_F(SlowSave, AFailingRunAbandonsIt) {
  for (const bool fails : {false, true}) {
    auto work = [&] {
      const auto run = start("save.shard.open=sleep:3000", /*async=*/true, milliseconds(0));
      auto fail_in_step_3 = [&] {
        if (fails && run->trainer().state().step == 2)
          throw Error(ErrorKind::data, "test", "bad sample");
        return false;
      };
      run->trainer().run(nullptr, {.stop = fail_in_step_3, .save_now = [] { return false; }});
    };
    if (fails) {
      EXPECT_THROW(work(), Error);
    } else {
      work();
    }
    EXPECT_EQ(std::filesystem::exists(saves() / checkpoint_at(2)), !fails);
    std::filesystem::remove_all(saves());
  }
}

}  // namespace
}  // namespace wmtp::test
