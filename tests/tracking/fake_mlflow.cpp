#include "fake_mlflow.h"

#include <algorithm>

#include "support/temp_dir.h"

namespace wmtp::test {

std::unique_ptr<mlflow::Remote> FakeMlflow::connect() {
  return std::make_unique<FakeRemote>(*this);
}

mlflow::Run& FakeRemote::run_at(std::string_view run_id) {
  const auto at = server_.runs.find(std::string(run_id));
  if (at == server_.runs.end())
    throw mlflow::Refused(404, "RESOURCE_DOES_NOT_EXIST", "there is no such run");
  return at->second;
}

void FakeRemote::take(mlflow::Run& run, const mlflow::Batch& batch) {
  if (server_.check) server_.check(batch);
  for (const auto& [key, value] : batch.params) {
    const auto [at, is_new] = run.params.try_emplace(key, value);
    if (!is_new && at->second != value)
      throw mlflow::Refused(400, "INVALID_PARAMETER_VALUE", "params are write-once");
  }
  for (const auto& [key, value] : batch.tags) run.tags[key] = value;
  for (const mlflow::Metric& metric : batch.metrics) {
    auto& values = server_.history[{metric.key, metric.step}];
    const FakeMlflow::Value value{metric.timestamp_ms, metric.value};
    if (std::find(values.begin(), values.end(), value) == values.end())
      values.push_back(value);
    else
      ++server_.num_repeats;
    auto& last = run.last_steps.try_emplace(metric.key, metric.step).first->second;
    last = std::max(last, metric.step);
  }
  server_.batches.push_back(batch);
}

void FakeRemote::upload(const mlflow::Run&, std::string_view name,
                        const std::filesystem::path& file) {
  call("upload", [&] {
    server_.uploads.push_back(std::string(name) + "=" + slurp(file));
    return 0;
  });
}

}  // namespace wmtp::test
