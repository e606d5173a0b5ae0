#include "wmtp/s3/files/s3_file_system.h"

#include <fmt/format.h>

#include <cerrno>

#include "wmtp/core/printable.h"
#include "wmtp/s3/files/s3_input.h"
#include "wmtp/storage/open_file.h"

namespace wmtp::s3 {
namespace {

using storage::FileError;
using storage::FileKind;

constexpr std::chrono::seconds kListingLife{10};
constexpr int kMostListedPages = 1000;

[[noreturn]] void refuse_writing(std::string_view action, const std::filesystem::path& path) {
  throw FileError(
      EROFS, {fmt::format("cannot {} {}: S3 is only read here", action, printable(path.string())),
              "write to a disk; `wmtp checkpoint push` copies a checkpoint to S3"});
}

// The part of a key behind its last "/".
std::string_view last_part(std::string_view key) {
  return key.substr(key.rfind('/') + 1);
}
// And what is before it: "" at the top of the bucket.
std::string_view folder_part(std::string_view key) {
  const std::size_t slash = key.rfind('/');
  return slash == key.npos ? std::string_view() : key.substr(0, slash);
}

// Names that would mean something else in a path.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos;
}

}  // namespace

S3FileSystem::S3FileSystem(std::shared_ptr<Session> session)
    : connections_(std::make_shared<Connections>(std::move(session))) {
  WMTP_CHECK(connections_->session().location().prefix.empty(), "a session with a prefix");
}

void S3FileSystem::create_folder(const Path& folder) {
  refuse_writing("create folder", folder);
}
std::unique_ptr<storage::OutputFile> S3FileSystem::create_file(const Path& path) {
  refuse_writing("create", path);
}
void S3FileSystem::rename(const Path& from, const Path&) {
  refuse_writing("rename", from);
}
void S3FileSystem::sync_folder(const Path& folder) {
  refuse_writing("fsync folder", folder);
}
void S3FileSystem::remove_file(const Path& path) {
  refuse_writing("remove", path);
}
void S3FileSystem::remove_folder(const Path& folder) {
  refuse_writing("remove folder", folder);
}
std::uint64_t S3FileSystem::free_bytes(const Path& folder) const {
  refuse_writing("ask for the free space of", folder);
}

std::string S3FileSystem::key_of(const Path& path) const {
  S3Uri uri = parse_s3_uri(path.string());
  const std::string& bucket = connections_->session().location().bucket;
  WMTP_CHECK(uri.bucket == bucket,
             fmt::format("{} is not in the bucket {}", printable(path.string()), bucket));
  return std::move(uri.prefix);
}

S3FileSystem::Listing S3FileSystem::read_listing(const std::string& folder_key,
                                                 bool all_pages) const {
  Listing listing;
  listing.read_at = std::chrono::steady_clock::now();
  const std::string prefix = folder_key.empty() ? "" : folder_key + "/";
  std::string token;
  for (int num_pages = 1;; ++num_pages) {
    const ObjectPage page =
        connections_->with([&](Bucket& bucket) { return bucket.list(prefix, "/", token); });
    for (const ObjectEntry& object : page.objects)
      if (const std::string name = object.key.substr(prefix.size()); is_plain_name(name))
        listing.entries.emplace(
            name, Entry{FileKind::file, {.bytes = object.bytes, .etag = object.etag}});
    for (const std::string& folder : page.prefixes) {
      const std::string name = folder.substr(prefix.size(), folder.size() - prefix.size() - 1);
      // Of an object and a folder with one name the folder is meant: it holds more.
      if (is_plain_name(name)) listing.entries.insert_or_assign(name, Entry{FileKind::folder});
    }
    listing.is_whole = page.next.empty();
    if (listing.is_whole || !all_pages) return listing;
    if (page.next == token || num_pages == kMostListedPages)
      throw Error(ErrorKind::data, "s3", "the list of objects does not end or goes in circles",
                  "is this a server of S3?");
    token = page.next;
  }
}

std::shared_ptr<const S3FileSystem::Listing> S3FileSystem::kept_listing(
    const std::string& folder_key) const {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(folder_key);
  if (found == kept_.end()) return nullptr;
  if (std::chrono::steady_clock::now() - found->second->read_at < kListingLife)
    return found->second;
  kept_.erase(found);
  return nullptr;
}

std::shared_ptr<const S3FileSystem::Listing> S3FileSystem::keep(const std::string& folder_key,
                                                                Listing listing) const {
  auto kept = std::make_shared<const Listing>(std::move(listing));
  const std::lock_guard lock(mutex_);
  kept_[folder_key] = kept;
  return kept;
}

std::vector<storage::FolderEntry> S3FileSystem::list(const Path& folder) const {
  const std::string key = key_of(folder);
  std::shared_ptr<const Listing> listing;
  try {
    listing = keep(key, read_listing(key, /*all_pages=*/true));
  } catch (...) {
    throw_as_file_error();
  }
  if (listing->entries.empty() && !key.empty())
    throw FileError(ENOENT, {fmt::format("there is nothing below {}", printable(folder.string())),
                             "S3 has no empty folders: is the name right?"});
  std::vector<storage::FolderEntry> entries;
  for (const auto& [name, entry] : listing->entries) entries.push_back({name, entry.kind});
  return entries;
}

// Keys may be allowed to read objects and not to list them.
S3FileSystem::Entry S3FileSystem::find(const std::string& key) const {
  const std::string folder(folder_part(key));
  auto listing = kept_listing(folder);
  if (!listing) try {
      listing = keep(folder, read_listing(folder, /*all_pages=*/false));
    } catch (const S3Error& error) {
      if (error.problem() != Problem::denied) throw;
      return ask(key);
    }
  const auto found = listing->entries.find(last_part(key));
  if (found != listing->entries.end()) return found->second;
  return listing->is_whole ? Entry{} : ask(key);
}

S3FileSystem::Entry S3FileSystem::ask(const std::string& key) const {
  return connections_->with([&](Bucket& bucket) -> Entry {
    if (const auto facts = bucket.head(key)) return {FileKind::file, *facts};
    const ObjectPage page = bucket.list(key + "/", "/", {}, /*page_size=*/1);
    const bool is_folder = !page.objects.empty() || !page.prefixes.empty();
    return {is_folder ? FileKind::folder : FileKind::missing};
  });
}

storage::FileStatus S3FileSystem::status(const Path& path) const {
  const std::string key = key_of(path);
  if (key.empty()) return {FileKind::folder};
  try {
    const Entry entry = find(key);
    return {entry.kind, entry.kind == FileKind::file ? entry.facts.bytes : 0};
  } catch (...) {
    throw_as_file_error();
  }
}

std::unique_ptr<storage::InputFile> S3FileSystem::open(const Path& folder, std::string_view name,
                                                       std::string_view origin) const {
  storage::check_relative_name(name, origin);
  const std::string key = key_of(folder / name);
  std::optional<ObjectFacts> facts;
  try {
    facts = connections_->with([&](Bucket& bucket) { return bucket.head(key); });
  } catch (...) {
    throw_as_file_error();
  }
  if (!facts)
    throw FileError(ENOENT,
                    {fmt::format("there is no {}", connections_->session().location().shown(key)),
                     "is the name right, and has the upload ended?"});
  return std::make_unique<S3Input>(connections_, key, *facts);
}

}  // namespace wmtp::s3
