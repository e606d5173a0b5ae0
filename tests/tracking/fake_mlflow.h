// A tracking server in memory: drops exact repeats as SQL-backed servers do, and fails on demand.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "wmtp/tracking/mlflow/remote.h"

namespace wmtp::test {

namespace mlflow = tracking::mlflow;

struct FakeMlflow {
  struct Value {
    std::int64_t timestamp_ms;
    double value;
    bool operator==(const Value&) const = default;
  };
  std::mutex mutex;  // of all that follows
  std::map<std::string, mlflow::Run> runs;
  std::map<std::string, mlflow::RunStatus> statuses;
  std::map<std::string, std::int64_t> end_ms;
  // Of all runs together, by key and step, in the order taken.
  std::map<std::pair<std::string, std::int64_t>, std::vector<Value>> history;
  std::vector<std::string> calls;            // "experiment", "create_run", ...
  std::vector<mlflow::Batch> batches;        // that were taken
  std::vector<std::string> inputs, uploads;  // "name=bytes"
  std::uint64_t num_repeats = 0;
  // Before a call is done, and after: may throw; the latter loses an answer.
  std::function<void(const std::string&call)> before, after;
  std::function<void(const mlflow::Batch&)> check;  // may refuse

  int num_calls(const std::string& name) {
    const std::scoped_lock lock(mutex);
    return static_cast<int>(std::count(calls.begin(), calls.end(), name));
  }
  std::unique_ptr<mlflow::Remote> connect();
};

class FakeRemote final : public mlflow::Remote {
 public:
  explicit FakeRemote(FakeMlflow& server) : server_(server) {}

  std::string experiment(std::string_view name) override {
    return call("experiment", [&] { return "id-of-" + std::string(name); });
  }
  mlflow::Run create_run(const mlflow::NewRun& run) override {
    return call("create_run", [&] {
      mlflow::Run made;
      made.run_id = "run" + std::to_string(server_.runs.size() + 1);
      made.experiment_id = run.experiment_id;
      made.artifact_uri = "mlflow-artifacts:/" + made.run_id;
      made.tags = {run.tags.begin(), run.tags.end()};
      server_.statuses[made.run_id] = mlflow::RunStatus::running;
      return server_.runs[made.run_id] = made;
    });
  }
  mlflow::Run get_run(std::string_view run_id) override {
    return call("get_run", [&] { return run_at(run_id); });
  }
  std::optional<mlflow::Run> find_run(std::string_view, const mlflow::KeyValue& tag) override {
    return call("find_run", [&]() -> std::optional<mlflow::Run> {
      for (const auto& [id, run] : server_.runs)
        if (run.tags.contains(tag.first) && run.tags.at(tag.first) == tag.second) return run;
      return std::nullopt;
    });
  }
  void log_batch(std::string_view run_id, const mlflow::Batch& batch) override {
    call("log_batch", [&] { return take(run_at(run_id), batch), 0; });
  }
  void log_inputs(std::string_view run_id, const OrderedJson& inputs) override {
    call("log_inputs", [&] { return run_at(run_id), server_.inputs.push_back(inputs.dump()), 0; });
  }
  void set_tag(std::string_view run_id, const mlflow::KeyValue& tag) override {
    call("set_tag", [&] { return run_at(run_id).tags[tag.first] = tag.second, 0; });
  }
  void update_run(std::string_view run_id, mlflow::RunStatus status,
                  std::optional<std::int64_t> end_ms) override {
    call("update_run", [&] {
      run_at(run_id);
      server_.statuses[std::string(run_id)] = status;
      if (end_ms) server_.end_ms[std::string(run_id)] = *end_ms;
      return 0;
    });
  }
  void upload(const mlflow::Run&, std::string_view name,
              const std::filesystem::path& file) override;

 private:
  template <class Do>
  auto call(const std::string& name, Do act) -> decltype(act()) {
    std::function<void(const std::string&)> before, after;
    {
      const std::scoped_lock lock(server_.mutex);
      server_.calls.push_back(name);
      before = server_.before;
      after = server_.after;
    }
    if (before) before(name);
    auto result = [&] {
      const std::scoped_lock lock(server_.mutex);
      return act();
    }();
    if (after) after(name);
    return result;
  }
  mlflow::Run& run_at(std::string_view run_id);
  void take(mlflow::Run& run, const mlflow::Batch& batch);

  FakeMlflow& server_;
};

}  // namespace wmtp::test
