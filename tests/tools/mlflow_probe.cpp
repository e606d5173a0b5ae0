// Talks to a tracking server through wmtp::tracking::mlflow for the Python tests. No LibTorch.
//   stdin: one JSON object per line, stdout: what came of it, per line. {"connect": URI} makes a
//   new Server; {"call": NAME, ...} calls it. Variables are those of the environment. stderr is the
//   log.
#include <csignal>
#include <cstdlib>
#include <iostream>

#include "wmtp/core/log.h"
#include "wmtp/core/time.h"
#include "wmtp/tracking/mlflow/rest/answers.h"
#include "wmtp/tracking/mlflow/rest/artifacts.h"
#include "wmtp/tracking/mlflow/rest/limits.h"

namespace wmtp::tracking::mlflow {
namespace {

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

http::ClientOptions options() {
  http::ClientOptions options;
  options.env = environment;
  return options;
}

std::vector<KeyValue> pairs_of(const Json& job, const char* key) {
  std::vector<KeyValue> pairs;
  for (const auto& pair : job.value(key, Json::array()))
    pairs.emplace_back(pair.at(0).get<std::string>(), pair.at(1).get<std::string>());
  return pairs;
}

Batch batch_of(const Json& job) {
  Batch batch{.metrics = {}, .params = pairs_of(job, "params"), .tags = pairs_of(job, "tags")};
  for (const auto& metric : job.value("metrics", Json::array()))
    batch.metrics.push_back(metric_of(metric, "job"));
  return batch;
}

// "batches" of a thousand metrics each, one after the other.
void log_many(Server& server, const Json& job) {
  for (int number = 0; number < job.at("batches").get<int>(); ++number) {
    Batch batch;
    for (int i = 0; i < 1000; ++i)
      batch.metrics.push_back({"train/metric_" + std::to_string(i % 20), 0.1 * i,
                               1'700'000'000'000 + number * 1000 + i, number * 50 + i / 20});
    server.log_batch(job.at("run_id").get<std::string>(), batch);
  }
}

Json shown_run(const Run& run) {
  return {{"run_id", run.run_id},
          {"experiment_id", run.experiment_id},
          {"artifact_uri", run.artifact_uri},
          {"params", run.params},
          {"tags", run.tags},
          {"last_steps", run.last_steps},
          {"is_deleted", run.is_deleted}};
}

RunStatus status_of(const std::string& name) {
  if (name == "running") return RunStatus::running;
  if (name == "finished") return RunStatus::finished;
  return name == "failed" ? RunStatus::failed : RunStatus::killed;
}

Json call(Server& server, Connection& connection, const Json& job) {
  const auto text = [&](const char* key) { return job.at(key).get<std::string>(); };
  const std::string name = text("call");
  if (name == "experiment") return server.experiment(text("name"));
  if (name == "create_run")
    return shown_run(server.create_run({.experiment_id = text("experiment_id"),
                                        .name = text("name"),
                                        .start_ms = job.at("start_ms"),
                                        .tags = pairs_of(job, "tags")}));
  if (name == "get_run") return shown_run(server.get_run(text("run_id")));
  if (name == "find_run") {
    const auto run = server.find_run(text("experiment_id"), {text("key"), text("value")});
    return run ? shown_run(*run) : Json();
  }
  if (name == "log_batch") server.log_batch(text("run_id"), batch_of(job));
  if (name == "log_many") log_many(server, job);
  if (name == "log_inputs") server.log_inputs(text("run_id"), OrderedJson(job.at("inputs")));
  if (name == "set_tag") server.set_tag(text("run_id"), {text("key"), text("value")});
  if (name == "update_run")
    server.update_run(
        text("run_id"), status_of(text("status")),
        job.contains("end_ms") ? std::optional(job["end_ms"].get<std::int64_t>()) : std::nullopt);
  if (name == "upload") {
    Run run;
    run.artifact_uri = text("artifact_uri");
    server.upload(run, text("name"), text("file"));
  }
  if (name == "upload_in_parts")
    upload_artifact(connection, text("artifact_uri"), text("name"), text("file"),
                    {.multipart_from = 1, .part_bytes = job.at("part_bytes")});
  if (name == "fit_key") return fit_key(text("key")).text;
  return nullptr;
}

Json described(const Error& error) {
  Json reply = {{"kind", name_of(error.kind())}, {"text", error.what()}};
  if (const auto* refused = dynamic_cast<const Refused*>(&error))
    reply.update({{"refused", refused->status()},
                  {"error_code", refused->code()},
                  {"about_content", refused->is_about_content()}});
  if (const auto* unavailable = dynamic_cast<const Unavailable*>(&error)) {
    reply["unavailable"] = unavailable->status();
    if (unavailable->retry_after()) reply["retry_after"] = unavailable->retry_after()->count();
  }
  return reply;
}

}  // namespace
}  // namespace wmtp::tracking::mlflow

int main() {
  using namespace wmtp;
  namespace mlflow = wmtp::tracking::mlflow;
  log::configure({.level = log::Level::debug});
  std::signal(SIGPIPE, SIG_IGN);
  std::unique_ptr<mlflow::Server> server;
  std::unique_ptr<mlflow::Connection> connection;
  for (std::string line; std::getline(std::cin, line);) {
    const Json job = Json::parse(line);
    Json reply = Json::object();
    const Clock::time_point start = Clock::now();
    try {
      if (job.contains("connect")) {
        const auto uri = job["connect"].get<std::string>();
        server = std::make_unique<mlflow::Server>(uri, mlflow::options());
        connection = std::make_unique<mlflow::Connection>(uri, mlflow::options());
      }
      if (job.contains("call")) reply["result"] = mlflow::call(*server, *connection, job);
    } catch (const Error& error) {
      reply = mlflow::described(error);
    }
    reply["seconds"] = seconds_since(start);
    std::cout << reply.dump(-1, ' ', true, Json::error_handler_t::replace) << std::endl;
  }
  return 0;
}
