// The thread of an UploadQueue.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>

#include "wmtp/core/log.h"
#include "wmtp/core/printable.h"
#include "wmtp/s3/problem.h"
#include "wmtp/s3/queue/folder_upload.h"
#include "wmtp/s3/queue/upload_queue.h"

namespace wmtp::s3 {
namespace {

constexpr int kNiceness = 10;                   // digests must not take cores from the training
constexpr std::chrono::minutes kTellEvery{10};  // of an outage

// Of this thread and of those that it starts. One that may not is as fast as the others.
void stand_back() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNiceness);
}

}  // namespace

void UploadQueue::work() {
  stand_back();
  http::RetryPolicy policy;
  policy.base = options_.first_wait;
  policy.longest = options_.longest_wait;
  policy.seed = session_->next_seed();
  std::optional<http::Backoff> backoff(policy);
  try {
    clear_orphans();
  } catch (const std::exception& thrown) {  // told, and tried again, with the first upload
    log::debug("s3", "{}", printable(thrown.what()));
  }
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (items_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const ItemPtr item = active_ = items_.front();
    const std::int64_t up_before = figures_.folders_up;
    const std::uint64_t bytes_before = figures_.bytes_up;
    lock.unlock();
    const bool is_done = send(item);
    lock.lock();
    active_.reset();
    changed_.notify_all();
    // What got something across begins with short waits again.
    if (figures_.folders_up != up_before || figures_.bytes_up != bytes_before)
      backoff.emplace(policy);
    if (!is_done)
      changed_.wait_for(lock, backoff->next(), [&] { return ending_.load() || item->is_replaced; });
  }
}

bool UploadQueue::send(const ItemPtr& item) {
  try {
    if (item->cancelled) throw Error(ErrorKind::io, "s3", "replaced while it waited");
    if (!orphans_cleared_) clear_orphans();
    send_once(*item);
    recovered();
    return true;
  } catch (const std::exception& thrown) {
    if (ending_) return true;
    bool is_replaced = false;
    {
      const std::lock_guard lock(mutex_);
      is_replaced = item->is_replaced;
    }
    if (!is_replaced && !is_gone(*item)) {
      failed(thrown);
      return false;
    }
    if (!is_replaced)
      log::warn("s3", "{} does not go up: it is not here any more", item->entry.name);
    give_up(item);
    return true;
  }
}

// A disk that fails is no answer.
bool UploadQueue::is_gone(const Item& item) const {
  try {
    const std::string& last = item.entry.files.back().path;
    return files_.status(options_.root / item.entry.name / last).kind == storage::FileKind::missing;
  } catch (const Error&) {
    return false;
  }
}

void UploadQueue::send_once(Item& item) {
  QueueEntry& entry = item.entry;
  const FolderNotes notes{[&](std::size_t file, const UploadState& state) {
                            if (item.log) item.log->note_state(file, state);
                          },
                          [&](std::size_t file, const UploadResult& result) {
                            if (item.log) item.log->note_up(file);
                            const std::lock_guard lock(mutex_);
                            figures_.bytes_up += result.bytes;
                          }};
  upload_folder(session_, options_.root / entry.name, entry, notes, &item.cancelled);
  Bucket bucket(session_, &item.cancelled);
  while (send_pointers(bucket, item)) {
  }
  if (!options_.after_folder) return;
  try {
    options_.after_folder(bucket, entry.name, pending());
  } catch (const std::exception& thrown) {
    if (!item.cancelled)
      log::warn("s3", "old checkpoints stay there: {}", printable(thrown.what()));
  }
}

// Once more where a caller has added some meanwhile. The item leaves the list in the same breath in
// which it has no more pointers: one that is added later is an entry of its own.
bool UploadQueue::send_pointers(Bucket& bucket, Item& item) {
  std::vector<std::string> pointers;
  {
    const std::lock_guard lock(mutex_);
    pointers = item.entry.pointers;
  }
  for (const std::string& pointer : pointers) put_pointer(bucket, pointer, item.entry.name);
  const std::lock_guard lock(mutex_);
  if (item.is_replaced) throw Error(ErrorKind::io, "s3", "replaced while it was sent");
  if (item.entry.pointers.size() != pointers.size()) return true;
  if (item.log) item.log->remove();
  items_.pop_front();
  ++figures_.folders_up;
  changed_.notify_all();
  return false;
}

// Of a folder that will never be whole. What cannot be cleared now is an orphan tomorrow.
void UploadQueue::give_up(const ItemPtr& item) {
  try {
    Bucket bucket(session_, &ending_);
    give_up_folder(bucket, item->entry);
  } catch (const std::exception& thrown) {
    log::debug("s3", "{}: {}", item->entry.name, printable(thrown.what()));
  }
  const std::lock_guard lock(mutex_);
  if (item->log && !item->is_replaced) item->log->remove();
  items_.remove(item);
  ++figures_.folders_left_out;
  changed_.notify_all();
}

void UploadQueue::clear_orphans() {
  std::set<std::string> known;
  {
    const std::lock_guard lock(mutex_);
    for (const ItemPtr& item : items_)
      for (const QueuedFile& file : item->entry.files) known.insert(file.state.upload_id);
  }
  Bucket bucket(session_, &ending_);
  int num_aborted = 0;
  try {
    num_aborted = abort_orphans(bucket, options_.orphan_prefix,
                                [&](const std::string& id) { return known.contains(id); });
  } catch (const S3Error& error) {
    if (error.problem() != Problem::denied && error.problem() != Problem::refused) throw;
    // Keys may be allowed to write and not to look at uploads: then a rule of the bucket does this.
    log::info("s3", "old multipart uploads are not looked for: {}", printable(error.fact()));
  }
  orphans_cleared_ = true;
  if (num_aborted > 0)
    log::info("s3", "aborted {} multipart uploads that were begun more than a day ago",
              num_aborted);
}

void UploadQueue::failed(const std::exception& thrown) {
  const std::lock_guard lock(mutex_);
  ++figures_.failed_tries;
  const bool is_time = !has_failed_ || Clock::now() - last_told_ >= kTellEvery;
  has_failed_ = true;
  if (!is_time) return;
  last_told_ = Clock::now();
  const auto* error = dynamic_cast<const Error*>(&thrown);
  const std::string hint = error && !error->hint().empty() ? "; " + error->hint() : "";
  log::warn("s3", "{} {} not up, and will be tried again: {}{}", items_.size(),
            items_.size() == 1 ? "checkpoint is" : "checkpoints are",
            printable(error ? error->fact() : thrown.what()), printable(hint));
}

void UploadQueue::recovered() {
  const std::lock_guard lock(mutex_);
  if (has_failed_) log::info("s3", "uploads go on");
  has_failed_ = false;
}

}  // namespace wmtp::s3
