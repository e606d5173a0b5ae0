#include "wmtp/checkpoint/restart_guard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "wmtp/core/error.h"
#include "wmtp/core/json.h"
#include "wmtp/core/log.h"
#include "wmtp/core/time.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::checkpoint {
namespace {

constexpr JsonLimits kLimits{.max_bytes = std::size_t{64} << 10, .max_depth = 4};
constexpr int kVersion = 1;

struct Start {
  std::string time;
  LockHolder who;
};

struct Record {
  std::string config;
  std::optional<std::int64_t> newest_step;
  std::vector<Start> starts;
};

Record parse(const Json& json) {
  Record record;
  if (json.at("version").get<int>() != kVersion) return record;
  record.config = json.at("config").get<std::string>();
  if (!json.at("newest_step").is_null())
    record.newest_step = json.at("newest_step").get<std::int64_t>();
  for (const Json& start : json.at("starts"))
    record.starts.push_back({start.at("time").get<std::string>(),
                             {start.at("host").get<std::string>(), start.at("pid").get<int>(),
                              start.at("run_id").get<std::string>()}});
  return record;
}

Record read(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  try {
    return parse(read_json(path, kLimits));
  } catch (const std::exception& error) {
    log::warn("checkpoint", "{} cannot be read and counts as empty: {}", path.string(),
              error.what());
    return {};
  }
}

void write(const std::filesystem::path& path, const Record& record) {
  OrderedJson starts = OrderedJson::array();
  for (const Start& start : record.starts)
    starts.push_back({{"time", start.time},
                      {"host", start.who.host},
                      {"pid", start.who.pid},
                      {"run_id", start.who.run_id}});
  OrderedJson json{{"version", kVersion}, {"config", record.config}, {"newest_step", nullptr}};
  if (record.newest_step) json["newest_step"] = *record.newest_step;
  json["starts"] = std::move(starts);
  storage::write_file_atomically(path, json.dump() + "\n");
}

[[noreturn]] void refuse_start(const std::filesystem::path& path, const Record& record) {
  std::vector<std::string> starts;
  for (const Start& start : record.starts)
    starts.push_back(
        fmt::format("{} (host {}, pid {})", start.time, start.who.host, start.who.pid));
  throw Error(
      ErrorKind::internal, "checkpoint",
      fmt::format("{} starts in a row ended without {}: {}", starts.size(),
                  record.newest_step
                      ? fmt::format("a checkpoint newer than step {}", *record.newest_step)
                      : std::string("a first checkpoint"),
                  fmt::join(starts, ", ")),
      fmt::format(
          "last_exit.json in the run folder and what the ranks printed (kept by wmtp launch "
          "--log-dir, or by the scheduler) say why; if they were only cut short, save more "
          "often (checkpoint.save_every_minutes); remove {} to start again",
          path.string()));
}

}  // namespace

std::filesystem::path start_record_path(const std::filesystem::path& save_dir,
                                        std::string_view model) {
  return save_dir / fmt::format("{}.starts", model);
}

void record_start(const StartRequest& request) {
  const std::filesystem::path path = start_record_path(request.save_dir, request.model);
  Record record = read(path);
  const bool progress =
      request.newest_step && (!record.newest_step || *request.newest_step > *record.newest_step);
  if (progress || record.config != request.config) record.starts.clear();
  if (record.starts.size() >= kMaxFruitlessStarts) refuse_start(path, record);
  record.config = request.config;
  record.newest_step = request.newest_step;
  record.starts.push_back({utc_timestamp(), request.me});
  try {
    write(path, record);
  } catch (const Error& error) {  // saves will say so too; the guard itself must not end a run
    log::warn("checkpoint", "this start is not on the list of starts: {}", error.fact());
  }
}

void forget_starts(const std::filesystem::path& save_dir, std::string_view model) noexcept {
  std::error_code ignored;
  std::filesystem::remove(start_record_path(save_dir, model), ignored);
}

void forget_start(const std::filesystem::path& save_dir, std::string_view model,
                  std::string_view run_id) noexcept try {
  const std::filesystem::path path = start_record_path(save_dir, model);
  Record record = read(path);
  if (std::erase_if(record.starts,
                    [&](const Start& start) { return start.who.run_id == run_id; }) == 0)
    return;
  write(path, record);
} catch (const std::exception& error) {
  log::warn("checkpoint", "cannot take this start off the list: {}", error.what());
}

}  // namespace wmtp::checkpoint
