#include "wmtp/s3/queue/upload_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "wmtp/core/log.h"
#include "wmtp/core/printable.h"

// Who owns what. Callers own nothing but the list, under the mutex: they append items, mark one as
// replaced and add pointers. The thread (queue_thread.cpp) works on the first item without the
// mutex and is the only one that touches the files of its entry. Each item's log has a mutex of its
// own, for a caller that adds a pointer while parts are being noted.

namespace wmtp::s3 {
namespace {

constexpr std::chrono::milliseconds kLook{100};  // between two questions of wait_until_empty

void make_place(storage::FileSystem& files, const std::filesystem::path& place) {
  for (const std::filesystem::path& folder : {place.parent_path(), place}) {
    if (files.status(folder).kind == storage::FileKind::folder) continue;
    files.create_folder(folder);
    files.sync_folder(folder.parent_path());
  }
}

bool contains(const std::vector<std::string>& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

// Time that a caller spends in a scope.
class CallerTime {
 public:
  explicit CallerTime(double& total) : total_(total) {}
  ~CallerTime() { total_ += seconds_since(begun_); }
  CallerTime(const CallerTime&) = delete;
  CallerTime& operator=(const CallerTime&) = delete;

 private:
  double& total_;
  Clock::time_point begun_ = Clock::now();
};

}  // namespace

UploadQueue::UploadQueue(storage::FileSystem& files, std::shared_ptr<Session> session,
                         QueueOptions options)
    : files_(files), session_(std::move(session)), options_(std::move(options)) {
  make_place(files_, options_.place);
  for (QueueEntry& entry : read_queue(files_, options_.place)) append(std::move(entry));
  if (!items_.empty())
    log::info("s3", "{} {} not up yet", items_.size(),
              items_.size() == 1 ? "checkpoint is" : "checkpoints are");
  if (session_) thread_ = std::thread([this] { work(); });
}

UploadQueue::~UploadQueue() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    for (const ItemPtr& item : items_) item->cancelled = true;
    if (active_) active_->cancelled = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void UploadQueue::keep(Item& item) {
  try {
    item.log = std::make_unique<QueueLog>(files_, options_.place, item.entry);
  } catch (const Error& error) {
    log::warn("s3", "{} is to go up, but a restart would not know: {}", item.entry.name,
              error.fact());
  }
}

// What a restart found is written anew, so that it can be added to.
void UploadQueue::append(QueueEntry entry) {
  const auto item = std::make_shared<Item>();
  item->entry = std::move(entry);
  next_order_ = std::max(next_order_, item->entry.order + 1);
  keep(*item);
  items_.push_back(item);
}

void UploadQueue::add(QueueEntry entry) {
  WMTP_CHECK(!entry.files.empty(), "a folder without files");
  const std::lock_guard lock(mutex_);
  const CallerTime spent(figures_.caller_s);
  for (auto at = items_.begin(); at != items_.end(); ++at) {
    Item& item = **at;
    if (item.entry.name != entry.name || item.is_replaced) continue;
    if (item.entry.version == entry.version) {
      for (const std::string& pointer : entry.pointers)
        if (!contains(item.entry.pointers, pointer)) {
          item.entry.pointers.push_back(pointer);
          if (item.log) item.log->note_pointer(pointer);
        }
      return;
    }
    item.is_replaced = item.cancelled = true;
    if (at != items_.begin() || !session_) items_.erase(at);
    break;
  }
  entry.order = next_order_;
  append(std::move(entry));
  leave_out();
  changed_.notify_all();
}

// The newest ones matter: a slow network must not fill the disk with what retention would remove.
void UploadQueue::leave_out() {
  std::size_t num_newer = 0;
  std::set<std::string> named;
  for (auto at = items_.end(); at != items_.begin();) {
    --at;
    if (at == items_.begin() && session_) return;  // being sent
    Item& item = **at;
    const bool is_named =
        !std::all_of(item.entry.pointers.begin(), item.entry.pointers.end(),
                     [&](const std::string& pointer) { return named.contains(pointer); });
    named.insert(item.entry.pointers.begin(), item.entry.pointers.end());
    if (num_newer++ < options_.most_waiting || is_named) continue;
    log::warn("s3", "{} does not go up: newer ones wait, too", item.entry.name);
    if (item.log) item.log->remove();
    ++figures_.folders_left_out;
    at = items_.erase(at);
  }
}

std::set<std::string> UploadQueue::names() const {
  std::set<std::string> result;
  for (const ItemPtr& item : items_) result.insert(item->entry.name);
  return result;
}

std::set<std::string> UploadQueue::pending() const {
  const std::lock_guard lock(mutex_);
  return names();
}

QueueFigures UploadQueue::figures() const {
  const std::lock_guard lock(mutex_);
  QueueFigures figures = figures_;
  figures.num_pending = items_.size();
  return figures;
}

bool UploadQueue::wait_until_empty(std::chrono::milliseconds limit,
                                   const std::function<bool()>& is_over) {
  const auto begun = Clock::now();
  const auto is_idle = [this] { return items_.empty() && !active_; };
  std::unique_lock lock(mutex_);
  while (!is_idle()) {
    if (!session_ || Clock::now() - begun >= limit) return is_idle();
    lock.unlock();
    const bool over = is_over();  // not under the mutex: it may take its time
    lock.lock();
    if (over) return is_idle();
    changed_.wait_for(lock, kLook, is_idle);
  }
  return true;
}

}  // namespace wmtp::s3
