// Two ranks that are processes, a folder with three checkpoints for them, and the faults they get.
#pragma once
#include "checkpoint/life.h"
#include "support/temp_dir.h"

#ifdef WMTP_FAILPOINTS
namespace wmtp::checkpoint::life {

inline constexpr std::string_view kQuarantine = "load.quarantine.rename";

struct Fault {
  std::string point;
  int rank = 0;
  failpoint::Action action = failpoint::Action::kill;
  std::int64_t nth = 1;

  std::string spec() const {
    return fmt::format("{}:rank={}:nth={}={}", point, rank, nth, failpoint::name_of(action));
  }
};

// Every point of the engine x what it can do of {kill, eio, enospc, short} x rank.
inline std::vector<Fault> all_faults() {
  using enum failpoint::Action;
  std::vector<Fault> faults;
  for (const failpoint::Point& point : engine_points()) {
    const std::string_view name = point.name;
    const bool of_both_ranks = name.starts_with("save.shard.") || name.starts_with("save.vote.") ||
                               name == "save.stage.begin" || name == "load.manifest.read" ||
                               name == "load.box.read";
    for (const auto action : {kill, eio, enospc, short_write})
      for (int rank = 0; can(point, action) && rank < (of_both_ranks ? 2 : 1); ++rank)
        faults.push_back({std::string(name), rank, action});
  }
  return faults;
}

// A folder under faults: what was acknowledged in it, and what the test itself has spoiled there.
class Scene {
 public:
  explicit Scene(const std::filesystem::path& origin) {
    std::filesystem::create_directory(save_dir());
    for (int step = 1; step <= newest_; ++step) {
      const std::string name = checkpoint_name(tiny::kModel, step);
      std::filesystem::copy(origin / name, save_dir() / name,
                            std::filesystem::copy_options::recursive);
    }
  }

  std::filesystem::path save_dir() const { return folder_ / "s"; }
  std::int64_t newest() const { return newest_; }  // acknowledged and not spoiled
  void acknowledge(std::int64_t step) { newest_ = std::max(newest_, step); }

  // Damages the newest checkpoint, in its manifest or in a tensor, unless the one of an earlier
  // call is still in place.
  void spoil_newest(bool in_tensor = false) {
    if (is_spoiled()) return;
    if (!spoiled_.empty()) std::filesystem::remove_all(save_dir() / aside());
    const auto found = find_checkpoints(files_, save_dir(), tiny::kModel);
    spoiled_ = found.at(0).name;
    spoiled_step_ = found.at(0).step;
    newest_ = std::min(newest_, found.at(1).step);
    if (!in_tensor) return test::write_file(save_dir() / spoiled_ / kManifestFile, "{");
    const std::filesystem::path folder = save_dir() / spoiled_ / name_of(Part::model);
    const std::filesystem::path shard = folder / files_.list(folder).at(0).name;
    std::string bytes = test::slurp(shard);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    test::write_file(shard, bytes);
  }

  // "" or the broken promise. What was spoiled is kept from the eyes of the oracle, but it must be
  // there: in its place or set aside.
  std::string broken_promise() const {
    std::vector<std::string> hidden;
    if (is_spoiled()) hidden.push_back(spoiled_);
    if (std::filesystem::exists(save_dir() / aside())) hidden.push_back(aside());
    if (hidden.empty() && !spoiled_.empty()) return spoiled_ + " was damaged and is gone";
    for (const auto& name : hidden) std::filesystem::rename(save_dir() / name, folder_ / name);
    const std::string fault = life::broken_promise(save_dir(), newest_);
    for (const auto& name : hidden) std::filesystem::rename(folder_ / name, save_dir() / name);
    return fault;
  }

 private:
  std::string aside() const { return spoiled_ + ".bad-1"; }
  bool is_spoiled() const {
    return !spoiled_.empty() && std::filesystem::exists(save_dir() / spoiled_) &&
           !tiny::fault_of(files_, save_dir() / spoiled_, spoiled_step_).empty();
  }

  const storage::LocalFileSystem files_;
  const test::TempDir folder_;
  std::int64_t newest_ = 3, spoiled_step_ = 0;
  std::string spoiled_;
};

class TwoRanks : public testing::Test {
 protected:
  TwoRanks() {
    use_fast_temp_dir();
    origin_ = std::make_unique<test::TempDir>();
    storage::LocalFileSystem files;
    for (int step = 1; step <= 3; ++step) tiny::expect_saved(files, origin_->path(), step, 2);
  }

  struct Result {
    std::int64_t newest = 0;  // acknowledged in this life
    std::array<int, 2> codes{};
  };

  Result live(Scene& scene, const std::string& spec) {
    const test::TempDir votes;
    std::filesystem::remove(log_path());
    Life life{.save_dir = scene.save_dir(), .world_size = 2, .vote_dir = votes.path()};
    life.timeout = vote_timeout_;
    life.failpoints = spec;
    life.failpoint_log = log_path();
    Child first(life);
    life.rank = 1;
    Child second(life);
    Result result;
    result.codes = end_of(first, second);
    for (const std::int64_t step : first.acknowledged())
      result.newest = std::max(result.newest, step);
    scene.acknowledge(result.newest);
    return result;
  }
  // With the damage that leads to the point, where it needs one.
  Result live(Scene& scene, const Fault& fault) {
    if (fault.point == kQuarantine) scene.spoil_newest();
    return live(scene, fault.spec());
  }
  // Of the last life.
  bool was_hit(const Fault& fault) const {
    return std::filesystem::exists(log_path()) &&
           test::slurp(log_path()).find(fmt::format("{} {} ", fault.point, fault.rank)) !=
               std::string::npos;
  }
  const std::filesystem::path& origin() const { return origin_->path(); }

  std::chrono::milliseconds vote_timeout_{60'000};

 private:
  // As a launcher does: when one rank is gone, the other has a moment to do wrong, then goes too.
  static std::array<int, 2> end_of(Child& first, Child& second) {
    std::array<std::optional<int>, 2> codes;
    while (!codes[0] || !codes[1]) {
      if (!codes[0]) codes[0] = first.try_wait();
      if (!codes[1]) codes[1] = second.try_wait();
      const auto gone = [](const auto& c) { return c == 128 + SIGKILL || c == kWrongState; };
      if ((gone(codes[0]) || gone(codes[1])) && !(codes[0] && codes[1])) {
        ::usleep(30'000);
        (codes[0] ? second : first).kill();
      }
      ::usleep(200);
    }
    return {*codes[0], *codes[1]};
  }
  std::filesystem::path log_path() const { return *origin_ / "log"; }

  std::unique_ptr<test::TempDir> origin_;
};

}  // namespace wmtp::checkpoint::life
#endif
