#include "wmtp/run/uploads/checkpoint_uploads.h"

#include <cstdint>
#include <utility>

#include "wmtp/checkpoint/format/names.h"
#include "wmtp/checkpoint/format/pointer.h"
#include "wmtp/checkpoint/load/listing.h"
#include "wmtp/checkpoint/load/reader.h"
#include "wmtp/core/log.h"
#include "wmtp/models/remote/s3_options.h"
#include "wmtp/run/uploads/remote_retention.h"

namespace wmtp::run {
namespace {

std::filesystem::path place_of_queue(const std::filesystem::path& save_dir,
                                     const std::string& model) {
  return save_dir / ".uploads" / model;
}

s3::QueueOptions queue_options(const config::Config& config, const std::string& model) {
  s3::QueueOptions options;
  options.root = config.checkpoint.save_dir;
  options.place = place_of_queue(config.checkpoint.save_dir, model);
  options.orphan_prefix = model + "-";
  // Those that retention keeps here may wait; they take no more room than without uploads.
  const auto& limit = config.checkpoint.save_total_limit;
  options.most_waiting = limit ? static_cast<std::size_t>(*limit) : SIZE_MAX;
  const auto keep =
      config.storage.s3.keep ? config.storage.s3.keep : config.checkpoint.save_total_limit;
  if (!keep) return options;
  options.after_folder = [model, most = *keep](s3::Bucket& bucket, const std::string& name,
                                               const std::set<std::string>& pending) {
    const auto parsed = checkpoint::parse_checkpoint_name(name);
    if (!parsed) return;
    apply_remote_retention(bucket, model,
                           {.keep = most, .kept = pending, .newest_step = parsed->step});
  };
  return options;
}

}  // namespace

CheckpointUploads::CheckpointUploads(const config::Config& config, std::string model,
                                     const http::Environment& environment, bool offline)
    : save_dir_(config.checkpoint.save_dir), model_(std::move(model)) {
  // Also offline: what is wrong with the keys is told now, not when the run is over.
  auto session = s3::open_session(models::s3_options(config.storage.s3, environment));
  if (offline)
    session.reset();
  else
    http::require_libcurl();
  queue_ =
      std::make_unique<s3::UploadQueue>(files_, std::move(session), queue_options(config, model_));
}

s3::QueueEntry CheckpointUploads::entry_of(const std::string& name) const {
  const std::filesystem::path folder = save_dir_ / name;
  const checkpoint::CheckpointReader reader(files_, folder);
  s3::QueueEntry entry;
  entry.name = name;
  entry.version = reader.manifest().self_sha256;
  for (const checkpoint::FileRecord& file : reader.manifest().files)
    entry.files.push_back({file.path, file.bytes});
  entry.files.push_back({std::string(checkpoint::kManifestFile),
                         files_.status(folder / checkpoint::kManifestFile).bytes});
  using checkpoint::Pointer;
  const checkpoint::FoundCheckpoint found{name, model_, reader.manifest().step};
  for (const Pointer pointer : {Pointer::latest, Pointer::best, Pointer::final})
    if (checkpoint::is_named_by(files_, save_dir_, found, pointer))
      entry.pointers.push_back(checkpoint::pointer_name(model_, pointer));
  return entry;
}

void CheckpointUploads::add(const std::string& name) {
  try {
    queue_->add(entry_of(name));
  } catch (const std::exception& thrown) {
    log::warn("s3", "{} does not go up: {}", name, thrown.what());
  }
}

std::set<std::string> queued_uploads(const storage::FileSystem& files,
                                     const std::filesystem::path& save_dir,
                                     const std::string& model) {
  std::set<std::string> names;
  for (const s3::QueueEntry& entry : s3::read_queue(files, place_of_queue(save_dir, model)))
    names.insert(entry.name);
  return names;
}

std::shared_ptr<CheckpointUploads> open_uploads(const config::Config& config,
                                                const std::string& model,
                                                const http::Environment& environment,
                                                bool offline) {
  if (!config.checkpoint.s3_upload) return nullptr;
  return std::make_shared<CheckpointUploads>(config, model, environment, offline);
}

}  // namespace wmtp::run
