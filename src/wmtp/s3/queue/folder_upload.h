// One folder to S3, so that nobody ever sees its last file before the others.
#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "wmtp/s3/queue/queue_log.h"
#include "wmtp/s3/session.h"

namespace wmtp::s3 {

// Where what happens is noted; each may be empty. THREADS: by any, one at a time.
struct FolderNotes {
  std::function<void(std::size_t file, const UploadState&)> on_state;
  std::function<void(std::size_t file, const UploadResult&)> on_up;
};

// BLOCKS until the files of the entry are objects `<name>/<path>`: those that are not up yet, one
// after the other, each seen there by HEAD; then all of them listed with their sizes; then the last
// one. What stood under its name with other contents goes first, and so does what the folder does
// not name. Does nothing where the last one is there as it is here. Follows the entry; an error
// leaves it for another try.
void upload_folder(const std::shared_ptr<Session>& session, const std::filesystem::path& folder,
                   QueueEntry& entry, const FolderNotes& notes,
                   const std::atomic<bool>* cancelled = nullptr);

// BLOCKS. The object `pointer` holds `name` and a line feed from now on.
void put_pointer(Bucket& bucket, std::string_view pointer, std::string_view name);

// BLOCKS. Removes the objects of a folder, `last` (manifest.json) first.
void remove_folder(Bucket& bucket, std::string_view name, std::string_view last);

// BLOCKS. Ends the multipart uploads that the entry has begun; and where its last file is not
// there, removes what is: it would never be whole.
void give_up_folder(Bucket& bucket, QueueEntry& entry);

// BLOCKS. Aborts multipart uploads below `name_prefix` that are older than a day and whose id
// `is_known` does not know; returns how many.
int abort_orphans(Bucket& bucket, std::string_view name_prefix,
                  const std::function<bool(const std::string& upload_id)>& is_known);

}  // namespace wmtp::s3
