#include "support/crash_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "wmtp/core/rng.h"
#include "wmtp/storage/open_file.h"

namespace wmtp::test {
namespace {

using storage::FileError;
using storage::FileKind;
using Path = std::filesystem::path;

constexpr int kRoot = 0;

std::string torn(const std::string& bytes, RngStream& rng) {
  const std::size_t unit = rng.below(2) ? 512 : 4096;
  return bytes.substr(0, rng.below(bytes.size() / unit + 1) * unit);
}

void place(std::string& file, std::size_t offset, const std::string& bytes) {
  if (bytes.empty()) return;
  if (file.size() < offset + bytes.size()) file.resize(offset + bytes.size(), '\0');
  file.replace(offset, bytes.size(), bytes);
}

}  // namespace

class CrashStore::Output final : public storage::OutputFile {
 public:
  Output(CrashStore& store, int inode, Path path)
      : store_(store), inode_(inode), path_(std::move(path)) {}
  void write(std::span<const std::byte> bytes) override { store_.write(inode_, bytes, path_); }
  void sync() override { store_.sync(inode_, path_); }
  void close() override {
    std::lock_guard lock(store_.mutex_);
    store_.call("close", path_);
  }

 private:
  CrashStore& store_;
  int inode_;
  Path path_;
};

class CrashStore::Input final : public storage::InputFile {
 public:
  Input(const CrashStore& store, int inode, Path path)
      : store_(store), inode_(inode), path_(std::move(path)) {}
  std::uint64_t size() const override { return store_.inodes_.at(inode_).bytes.size(); }
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    std::lock_guard lock(store_.mutex_);
    store_.call("read", path_);
    const std::string& bytes = store_.inodes_.at(inode_).bytes;
    if (offset > bytes.size() || out.size() > bytes.size() - offset)
      throw FileError(EIO, "read beyond the end of", path_);
    if (!out.empty()) std::memcpy(out.data(), bytes.data() + offset, out.size());
  }

 private:
  const CrashStore& store_;
  int inode_;
  Path path_;
};

CrashStore::CrashStore() {
  inodes_[kRoot].folder = true;
}

CrashStore::CrashStore(const CrashStore& other)
    : inodes_(other.inodes_), next_inode_(other.next_inode_), free_bytes_(other.free_bytes_) {}

void CrashStore::cut_at(int call) {
  disarm();
  cut_at_ = call;
}

void CrashStore::fail(int call, int error, Fail mode, bool half) {
  disarm();
  fail_at_ = call;
  fail_error_ = error;
  fail_mode_ = mode;
  fail_half_ = half;
}

void CrashStore::disarm() {
  num_calls_ = cut_at_ = fail_at_ = 0;
}

std::optional<int> CrashStore::next_call() const {
  ++num_calls_;
  if (cut_at_ > 0 && num_calls_ >= cut_at_) throw PowerCut{};
  const bool hit = fail_mode_ == Fail::once ? num_calls_ == fail_at_ : num_calls_ >= fail_at_;
  return fail_at_ > 0 && hit ? std::optional(fail_error_) : std::nullopt;
}

void CrashStore::call(std::string_view action, const Path& path) const {
  if (const auto error = next_call()) throw FileError(*error, action, path);
}

std::optional<int> CrashStore::find(const Path& path) const {
  int at = kRoot;
  for (const Path& part : path.relative_path()) {
    if (part.empty() || part == ".") continue;
    const Inode& folder = inodes_.at(at);
    const auto entry = folder.entries.find(part.string());
    if (!folder.folder || entry == folder.entries.end()) return std::nullopt;
    at = entry->second;
  }
  return at;
}

int CrashStore::folder_at(const Path& path, std::string_view action) const {
  const auto inode = find(path);
  if (!inode) throw FileError(ENOENT, action, path);
  if (!inodes_.at(*inode).folder) throw FileError(ENOTDIR, action, path);
  return *inode;
}

int CrashStore::parent_of(const Path& path, std::string_view action) const {
  return folder_at(path.parent_path(), action);
}

int CrashStore::add(const Path& path, bool folder) {
  Inode& parent = inodes_.at(parent_of(path, "create"));
  if (find(path)) throw FileError(EEXIST, "create", path);
  const int inode = next_inode_++;
  const std::string name = path.filename().string();
  parent.entries[name] = inode;
  parent.changes.push_back({"", name, inode});
  inodes_[inode].folder = folder;
  return inode;
}

void CrashStore::create_folder(const Path& folder) {
  std::lock_guard lock(mutex_);
  call("create folder", folder);
  add(folder, true);
}

std::unique_ptr<storage::OutputFile> CrashStore::create_file(const Path& path) {
  std::lock_guard lock(mutex_);
  call("create", path);
  return std::make_unique<Output>(*this, add(path, false), path);
}

void CrashStore::write(int inode, std::span<const std::byte> bytes, const Path& path) {
  std::lock_guard lock(mutex_);
  const auto error = next_call();
  const std::size_t taken = !error ? bytes.size() : fail_half_ ? bytes.size() / 2 : 0;
  Inode& file = inodes_.at(inode);
  const std::string piece(reinterpret_cast<const char*>(bytes.data()), taken);
  if (taken > 0) file.writes.push_back({file.bytes.size(), piece});
  file.bytes += piece;
  if (error) throw FileError(*error, "write", path);
}

void CrashStore::sync(int inode, const Path& path) {
  std::lock_guard lock(mutex_);
  Inode& file = inodes_.at(inode);
  const auto error = next_call();
  if (error)
    file.bytes = file.durable_bytes;
  else
    file.durable_bytes = file.bytes;
  file.writes.clear();
  if (error) throw FileError(*error, "fsync", path);
}

void CrashStore::rename(const Path& from, const Path& to) {
  std::lock_guard lock(mutex_);
  call("rename into place", to);
  const int parent = parent_of(from, "rename");
  const auto moved = find(from);
  if (!moved) throw FileError(ENOENT, "rename", from);
  if (parent != parent_of(to, "rename")) throw FileError(EXDEV, "rename", to);
  if (const auto old = find(to)) {
    const Inode& target = inodes_.at(*old);
    if (target.folder != inodes_.at(*moved).folder) throw FileError(EISDIR, "rename", to);
    if (target.folder && !target.entries.empty()) throw FileError(ENOTEMPTY, "rename", to);
  }
  Inode& folder = inodes_.at(parent);
  folder.entries.erase(from.filename().string());
  folder.entries[to.filename().string()] = *moved;
  folder.changes.push_back({from.filename().string(), to.filename().string(), *moved});
}

void CrashStore::sync_folder(const Path& path) {
  std::lock_guard lock(mutex_);
  call("fsync folder", path);
  Inode& folder = inodes_.at(folder_at(path, "fsync folder"));
  folder.durable_entries = folder.entries;
  folder.changes.clear();
}

void CrashStore::remove(const Path& path, bool folder) {
  const auto inode = find(path);
  if (!inode) throw FileError(ENOENT, "remove", path);
  if (inodes_.at(*inode).folder != folder)
    throw FileError(folder ? ENOTDIR : EISDIR, "remove", path);
  if (folder && !inodes_.at(*inode).entries.empty()) throw FileError(ENOTEMPTY, "remove", path);
  Inode& parent = inodes_.at(parent_of(path, "remove"));
  parent.entries.erase(path.filename().string());
  parent.changes.push_back({path.filename().string(), "", *inode});
}

void CrashStore::remove_file(const Path& path) {
  std::lock_guard lock(mutex_);
  call("remove", path);
  remove(path, false);
}

void CrashStore::remove_folder(const Path& folder) {
  std::lock_guard lock(mutex_);
  call("remove folder", folder);
  remove(folder, true);
}

std::vector<storage::FolderEntry> CrashStore::list(const Path& path) const {
  std::lock_guard lock(mutex_);
  call("list", path);
  std::vector<storage::FolderEntry> entries;
  for (const auto& [name, inode] : inodes_.at(folder_at(path, "list")).entries)
    entries.push_back({name, inodes_.at(inode).folder ? FileKind::folder : FileKind::file});
  return entries;
}

storage::FileStatus CrashStore::status(const Path& path) const {
  std::lock_guard lock(mutex_);
  call("stat", path);
  const auto inode = find(path);
  if (!inode) return {};
  const Inode& node = inodes_.at(*inode);
  return {node.folder ? FileKind::folder : FileKind::file, node.bytes.size()};
}

std::uint64_t CrashStore::free_bytes(const Path& folder) const {
  std::lock_guard lock(mutex_);
  call("ask for the free space of", folder);
  return free_bytes_;
}

std::unique_ptr<storage::InputFile> CrashStore::open(const Path& folder, std::string_view name,
                                                     std::string_view origin) const {
  storage::check_relative_name(name, origin);
  std::lock_guard lock(mutex_);
  call("open", folder / name);
  const auto inode = find(folder / name);
  if (!inode) throw FileError(ENOENT, "open", folder / name);
  return std::make_unique<Input>(*this, *inode, folder / name);
}

std::string& CrashStore::bytes(const Path& path) {
  return inodes_.at(*find(path)).bytes;
}

void CrashStore::power_loss(std::uint64_t seed) {
  disarm();
  RngStream rng(seed, "power_loss");
  for (auto& [id, node] : inodes_) {
    const std::uint64_t mood = rng.below(4);  // 0: nothing made it, 1: all did, else: by chance
    const auto kept = [&] { return mood == 1 || (mood > 1 && rng.below(2) == 1); };
    std::string bytes = node.durable_bytes;
    if (mood > 1) rng.shuffle(std::span(node.writes));
    for (const Write& write : node.writes)
      if (kept())
        place(bytes, write.offset, mood > 1 && rng.below(2) ? torn(write.bytes, rng) : write.bytes);
    if (bytes.size() < node.bytes.size() && rng.below(3) == 0)
      bytes.resize(node.bytes.size(), '\0');
    node.bytes = node.durable_bytes = bytes;
    node.writes.clear();
    Entries entries = node.durable_entries;
    for (const EntryChange& change : node.changes) {
      if (!kept()) continue;
      if (!change.from.empty()) entries.erase(change.from);
      if (!change.to.empty()) entries[change.to] = change.inode;
    }
    node.entries = node.durable_entries = entries;
    node.changes.clear();
  }
}

}  // namespace wmtp::test
