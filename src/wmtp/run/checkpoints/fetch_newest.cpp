#include "wmtp/run/checkpoints/fetch_newest.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "wmtp/checkpoint/format/folder.h"
#include "wmtp/checkpoint/load/listing.h"
#include "wmtp/checkpoint/load/reader.h"
#include "wmtp/checkpoint/reply.h"
#include "wmtp/core/log.h"
#include "wmtp/models/remote/copy_checkpoint.h"
#include "wmtp/models/remote/file_systems.h"
#include "wmtp/run/checkpoints/store_exchange.h"

namespace wmtp::run {
namespace {

using checkpoint::FoundCheckpoint;

std::string place_in_bucket(const config::S3& s3) {
  return s3.prefix.empty() ? fmt::format("s3://{}", s3.bucket)
                           : fmt::format("s3://{}/{}", s3.bucket, s3.prefix);
}

std::vector<FoundCheckpoint> found_at(const std::filesystem::path& folder,
                                      const std::string& model) {
  return checkpoint::find_checkpoints(*models::files_of(folder), folder, model);
}

void pull_first_whole(const std::vector<FoundCheckpoint>& candidates, const std::string& place,
                      const std::filesystem::path& save_dir) {
  for (const FoundCheckpoint& found : candidates) try {
      const std::string remote = fmt::format("{}/{}", place, found.name);
      // Uploads that were cut short have no manifest yet.
      if (!checkpoint::is_checkpoint(*models::files_of(remote), remote)) continue;
      log::info("s3", "{} has {}, which {} has not: fetching it", place, found.name,
                save_dir.string());
      models::pull_checkpoint(remote, save_dir);
      return;
    } catch (const checkpoint::DamageError& error) {
      log::warn("s3", "{}; trying the one before", error.fact());
    }
}

// What rank 0 does for all: hands those that are newer than all in save_dir to `take`.
template <class Take>
void find_newer(const FetchRequest& request, Take&& take) {
  const std::string place = place_in_bucket(request.config.storage.s3);
  const auto& save_dir = request.config.checkpoint.save_dir;
  const auto here = found_at(save_dir, request.model);
  try {
    auto there = found_at(place, request.model);
    if (!here.empty())
      std::erase_if(there, [&](const auto& one) { return one.step <= here.front().step; });
    take(there, place, save_dir);
  } catch (const Error& error) {
    const bool may_begin = !here.empty() || request.allow_fresh_start;
    if (!may_begin && error.kind() == ErrorKind::config) throw;  // its hint is the better one
    if (!may_begin)
      throw Error(
          ErrorKind::comm, "s3",
          fmt::format("{} holds no checkpoint of {}, and whether {} does cannot be told: {}",
                      save_dir.string(), request.model, place, error.fact()),
          "start again when the bucket answers; --allow-fresh-start or --resume never "
          "begins at step 0 without it");
    log::warn("s3", "whether {} holds later checkpoints cannot be told: {}", place, error.fact());
  }
}

}  // namespace

std::string look_for_newer(const FetchRequest& request) {
  std::string newest;
  find_newer(request, [&newest](const std::vector<FoundCheckpoint>& candidates,
                                const std::string& place, const std::filesystem::path&) {
    if (!candidates.empty()) newest = fmt::format("{}/{}", place, candidates.front().name);
  });
  return newest;
}

void fetch_newest(const FetchRequest& request, comm::ProcessGroupSession& session) {
  StoreExchange vote(session.store(), "fetch");
  const std::string key = fmt::format("fetched/{}", request.start_id);
  if (session.rank() == 0) {
    try {
      find_newer(request, pull_first_whole);
    } catch (const Error& error) {
      vote.post(key, checkpoint::failed(error));
      throw;
    }
    return vote.post(key, checkpoint::ok(""));
  }
  // As long as it takes: the watchdog knows whether rank 0 is alive.
  std::optional<std::string> told;
  while (!told) told = vote.wait(key, std::chrono::minutes(1));
  const checkpoint::Reply reply = checkpoint::parse_reply(*told);
  if (!reply.yes) throw Error(reply.kind, "s3", reply.text);
}

}  // namespace wmtp::run
