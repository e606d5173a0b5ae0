// Folders on their way to S3, in the background: queued on disk, sent one after the other, tried
// again for as long as the process lives. Whoever adds to it never waits for a server.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "wmtp/core/time.h"
#include "wmtp/http/retry.h"
#include "wmtp/s3/queue/queue_log.h"
#include "wmtp/s3/session.h"

namespace wmtp::s3 {

struct QueueOptions {
  std::filesystem::path root = {};  // the folders are in it
  // Of the queue itself; it and the folder above it are made where they are missing.
  std::filesystem::path place = {};
  std::string orphan_prefix = {};  // old multipart uploads below it that no entry knows are aborted
  // Folders that wait behind the one being sent. Beyond these the oldest are left out, unless a
  // pointer is to name them that names no newer one.
  std::size_t most_waiting = 2;
  std::chrono::milliseconds first_wait{1'000}, longest_wait{60'000};  // between tries of a folder
  // Called by the queue's thread after each folder, with those that are still to come. What it
  // throws is a warning.
  std::function<void(Bucket&, const std::string& name, const std::set<std::string>& pending)>
      after_folder = {};
};

struct QueueFigures {
  std::uint64_t bytes_up = 0;
  std::int64_t folders_up = 0, folders_left_out = 0, failed_tries = 0;
  std::size_t num_pending = 0;
  double caller_s = 0;  // spent in add()
};

class UploadQueue {
 public:
  // Takes up what the place holds, and starts the thread; without a session nothing is sent, only
  // queued. BORROWS `files`. FileError where the place cannot be read or made.
  UploadQueue(storage::FileSystem& files, std::shared_ptr<Session> session, QueueOptions options);
  // Ends the request under way; what is not up stays queued.
  ~UploadQueue();
  UploadQueue(const UploadQueue&) = delete;
  UploadQueue& operator=(const UploadQueue&) = delete;

  // BLOCKS for the disk alone, and never throws: what cannot be kept on disk is sent all the same.
  // Takes the place of an entry of the same name; where the version is the same, too, only its
  // pointers are added. REQUIRES files. THREADS: any.
  void add(QueueEntry entry);

  std::set<std::string> pending() const;  // names of folders that are not up
  QueueFigures figures() const;
  // BLOCKS until nothing is left to do (true), `limit` has passed, or `is_over` says so.
  bool wait_until_empty(std::chrono::milliseconds limit, const std::function<bool()>& is_over);

 private:
  struct Item {
    QueueEntry entry;  // its files belong to the thread, the rest is under the mutex
    std::unique_ptr<QueueLog> log;
    std::atomic<bool> cancelled = false;
    bool is_replaced = false;
  };
  using ItemPtr = std::shared_ptr<Item>;

  void keep(Item& item);
  void append(QueueEntry entry);
  void leave_out();
  void work();
  bool send(const ItemPtr& item);  // false: to be tried again
  void send_once(Item& item);
  bool send_pointers(Bucket& bucket, Item& item);
  bool is_gone(const Item& item) const;
  void give_up(const ItemPtr& item);
  void clear_orphans();
  void failed(const std::exception& thrown);
  void recovered();
  std::set<std::string> names() const;  // under the mutex

  storage::FileSystem& files_;
  std::shared_ptr<Session> session_;
  QueueOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<ItemPtr> items_;  // the first one is sent next, or being sent
  ItemPtr active_;            // what the thread is at, pointers and old folders there included
  std::uint64_t next_order_ = 1;
  QueueFigures figures_;
  std::atomic<bool> ending_ = false;
  Clock::time_point last_told_{};
  bool has_failed_ = false;
  bool orphans_cleared_ = false;  // of the thread
  std::thread thread_;
};

}  // namespace wmtp::s3
