#include "wmtp/run/uploads/remote_retention.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "wmtp/checkpoint/format/names.h"
#include "wmtp/checkpoint/format/pointer.h"
#include "wmtp/core/log.h"
#include "wmtp/s3/queue/folder_upload.h"

namespace wmtp::run {
namespace {

constexpr std::uint64_t kMostPointerBytes = 4096;

std::string manifest_of(const std::string& name) {
  return fmt::format("{}/{}", name, checkpoint::kManifestFile);
}

std::vector<RemoteCheckpoint> find_remote(s3::Bucket& bucket, const std::string& model) {
  std::vector<RemoteCheckpoint> found;
  std::string token;
  do {
    const s3::ObjectPage page = bucket.list(fmt::format("{}-", model), "/", token);
    for (const std::string& prefix : page.prefixes) {
      const std::string name = prefix.substr(0, prefix.size() - 1);
      const auto parsed = checkpoint::parse_checkpoint_name(name);
      if (parsed && parsed->model == model) found.push_back({name, parsed->step});
    }
    token = page.next;
  } while (!token.empty());
  return found;
}

// What the pointer object names; nothing: there is none.
std::optional<std::string> remote_pointer(s3::Bucket& bucket, const std::string& name) {
  if (!bucket.head(name)) return std::nullopt;
  std::string target = bucket.get(name, kMostPointerBytes);
  while (target.ends_with('\n')) target.pop_back();
  return target;
}

}  // namespace

std::vector<std::string> plan_remote_retention(std::vector<RemoteCheckpoint> found,
                                               const RemoteRules& rules) {
  std::sort(found.begin(), found.end(),
            [](const RemoteCheckpoint& a, const RemoteCheckpoint& b) { return a.step > b.step; });
  std::vector<std::string> doomed;
  std::int64_t num_newest = 0;
  for (const RemoteCheckpoint& one : found) {
    if (one.step > rules.newest_step) continue;
    const bool is_new = one.has_manifest && num_newest++ < rules.keep;
    if (!is_new && !rules.kept.contains(one.name)) doomed.push_back(one.name);
  }
  std::reverse(doomed.begin(), doomed.end());
  return doomed;
}

std::vector<std::string> apply_remote_retention(s3::Bucket& bucket, const std::string& model,
                                                RemoteRules rules) {
  std::vector<RemoteCheckpoint> found = find_remote(bucket, model);
  for (RemoteCheckpoint& one : found)
    one.has_manifest = bucket.head(manifest_of(one.name)).has_value();
  using checkpoint::Pointer;
  for (const Pointer pointer : {Pointer::best, Pointer::final})
    if (const auto name = remote_pointer(bucket, checkpoint::pointer_name(model, pointer)))
      rules.kept.insert(*name);
  std::vector<std::string> doomed = plan_remote_retention(std::move(found), rules);
  for (const std::string& name : doomed) {
    s3::remove_folder(bucket, name, checkpoint::kManifestFile);
    log::debug("s3", "removed {} from the bucket", name);
  }
  return doomed;
}

}  // namespace wmtp::run
