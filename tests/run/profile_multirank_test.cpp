// A profile ends while collectives are under way: those that a step starts for the next one are.
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "support/multi_process.h"
#include "support/temp_dir.h"
#include "wmtp/comm/session.h"
#include "wmtp/run/profile/profiler.h"

namespace wmtp::test {
namespace {

// Rank 1 joins when rank 0's profile is written. What the backend's thread does until then, and
// after, is in nobody's profile: it would write to one that is gone.
TEST(ProfileMultirank, ACollectiveMayOutliveTheProfile) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2}));
  comm::SessionOptions options;
  options.rendezvous.timeout = std::chrono::seconds(30);
  auto session =
      comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), options);
  session->connect();
  const Tensor sum = at::full({1000}, 1.f);
  if (session->rank() == 1) session->store().get("written", std::chrono::seconds(30));
  comm::Work work;
  if (session->rank() == 0) {
    const TempDir folder;
    run::Profiler profiler(c10::Device(c10::kCPU));
    work = session->reduce_group().all_reduce(sum, "late");
    const auto spans = profiler.finish(folder / "trace.json", 0600);
    EXPECT_TRUE(std::ranges::any_of(
        spans, [](const run::ProfiledSpan& span) { return span.name == "all_reduce late"; }));
    std::ifstream file(folder / "trace.json");
    const std::string trace{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NE(trace.find("all_reduce late"), std::string::npos);
    EXPECT_EQ(trace.find("gloo:"), std::string::npos) << "recorded by a thread of the backend";
    session->store().set("written", "1");
  } else {
    work = session->reduce_group().all_reduce(sum, "late");
  }
  work.wait();
  EXPECT_EQ(sum[0].item<float>(), 2.f);
  session->finish();
}

}  // namespace
}  // namespace wmtp::test
