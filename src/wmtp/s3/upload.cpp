// The order of an upload: parts, then Complete, then HEAD. Complete may answer 200 with an error,
// lose its answer, or be answered "no such upload" because a lost one was carried out. So its
// answer decides nothing: the object does, by its size and its ETag, and where the ETag says
// nothing, the upload, which is gone once it was completed.
#include "wmtp/s3/upload.h"

#include <sys/stat.h>

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "wmtp/core/failpoint.h"
#include "wmtp/core/log.h"
#include "wmtp/core/printable.h"
#include "wmtp/s3/file_part.h"
#include "wmtp/s3/parallel.h"
#include "wmtp/s3/part_plan.h"
#include "wmtp/storage/open_file.h"

namespace wmtp::s3 {
namespace {

std::uint64_t size_of_file(int file, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(file, &status) != 0)
    throw Error(ErrorKind::io, "s3", fmt::format("cannot read {}", printable(path.string())));
  return static_cast<std::uint64_t>(status.st_size);
}

class Upload {
 public:
  Upload(const std::shared_ptr<Session>& session, const std::filesystem::path& path,
         std::string_view name, UploadState& state, const UploadOptions& options)
      : session_(session),
        name_(name),
        state_(state),
        options_(options),
        file_(storage::open_regular(path)),
        bucket_(session, options.cancelled) {
    const std::uint64_t configured = state.upload_id.empty()
                                         ? session->options().part_bytes
                                         : std::max(state.part_bytes, kLeastPartBytes);
    plan_ = plan_parts(size_of_file(file_.get(), path), configured);
  }

  UploadResult run() {
    if (plan_.num_parts() == 1 && state_.upload_id.empty()) return put_whole();
    begin();
    send_parts();
    return complete();
  }

 private:
  std::string shown() const {
    return session_->location().shown(session_->location().key_of(name_));
  }

  [[noreturn]] void refuse_object(const std::optional<ObjectFacts>& facts,
                                  std::string_view etag) const {
    throw S3Error(
        Problem::bad_digest, 200, "",
        facts ? fmt::format("{} has {} bytes and the ETag \"{}\", where {} and \"{}\" "
                            "were sent",
                            shown(), facts->bytes, printable(facts->etag), plan_.file_bytes, etag)
              : fmt::format("{} is not there, though the server took it", shown()),
        "does something else write to this key?");
  }

  UploadResult put_whole() {
    const http::ByteRange range = plan_.range_of(1);
    DigestNeeds needs = needs_of(*session_);
    needs.md5 = true;  // of one part, which is little, and HEAD can be held against it
    const PartDigests digests = digest_part(file_.get(), range, needs);
    FilePart part(file_.get(), range);
    const std::string etag =
        bucket_.put(name_, payload_of(part, digests, session_->options().checksum));
    const std::string md5_hex = to_hex(digests.md5);
    const auto facts = bucket_.head(name_);
    // An ETag that was no MD5 in the answer to PUT is none now either.
    const bool says_md5 = etag == md5_hex;
    if (!facts || facts->bytes != plan_.file_bytes || (says_md5 && facts->etag != md5_hex))
      refuse_object(facts, md5_hex);
    return {plan_.file_bytes, facts->etag, 0, 0};
  }

  // Goes on with the upload of the state where the server still knows it.
  void begin() {
    if (!state_.upload_id.empty()) {
      const auto known = bucket_.list_parts(name_, state_.upload_id);
      if (known) {
        keep_known_parts(*known);
        return;
      }
      log::info("s3", "{}: the upload that was begun is gone, beginning anew", shown());
      plan_ = plan_parts(plan_.file_bytes, session_->options().part_bytes);
      state_ = {};
    }
    state_.part_bytes = plan_.part_bytes;
    state_.upload_id = bucket_.create_upload(name_);
    changed();
  }

  void keep_known_parts(const std::vector<PartEntry>& known) {
    std::map<int, UploadState::Part> kept;
    for (const PartEntry& part : known) {
      const auto found = state_.parts.find(part.number);
      if (found == state_.parts.end() || part.number > plan_.num_parts()) continue;
      const bool is_same =
          part.bytes == plan_.range_of(part.number).length && part.etag == found->second.etag;
      if (is_same) kept.insert(*found);
    }
    state_.parts = std::move(kept);
  }

  void changed() const {
    if (options_.on_change) options_.on_change(state_);
  }

  // Whether the server has these bytes. A part without an MD5 of ours has it in its ETag, or is
  // sent again.
  static bool is_of(const UploadState::Part& part, const std::string& md5_hex) {
    return (part.md5_hex.empty() ? part.etag : part.md5_hex) == md5_hex;
  }

  void send_parts() {
    const auto num_parts = static_cast<std::size_t>(plan_.num_parts());
    digests_.resize(num_parts);
    const std::map<int, UploadState::Part> reused = state_.parts;
    for_each_number(session_, plan_.num_parts(), options_.cancelled,
                    [&](Bucket& bucket, int number) {
                      const http::ByteRange range = plan_.range_of(number);
                      PartDigests& digests = digests_[static_cast<std::size_t>(number - 1)];
                      const auto before = reused.find(number);
                      DigestNeeds needs = needs_of(*session_);
                      needs.md5 = needs.md5 || before != reused.end();
                      digests = digest_part(file_.get(), range, needs);
                      const std::string md5_hex = needs.md5 ? to_hex(digests.md5) : "";
                      if (before != reused.end() && is_of(before->second, md5_hex)) return;
                      FilePart part(file_.get(), range);
                      const std::string etag =
                          bucket.put_part(name_, state_.upload_id, number,
                                          payload_of(part, digests, session_->options().checksum));
                      failpoint::pass("upload.part.sent");
                      const std::lock_guard lock(mutex_);
                      state_.parts[number] = {etag, md5_hex};
                      ++num_sent_;
                      changed();
                    });
  }

  // The parts as Complete wants them; and the ETag that the object will have, "" where those of the
  // parts are no MD5s.
  std::pair<std::vector<CompletedPart>, std::string> sent_parts() const {
    std::vector<CompletedPart> parts;
    std::vector<Md5Digest> md5s;
    bool says_md5 = true;
    for (const auto& [number, part] : state_.parts) {
      const PartDigests& digests = digests_[static_cast<std::size_t>(number - 1)];
      parts.push_back({number, part.etag, digests.crc32c});
      md5s.push_back(digests.md5);
      says_md5 = says_md5 && part.etag == part.md5_hex;
    }
    return {std::move(parts), says_md5 ? composite_etag(md5s) : ""};
  }

  UploadResult complete() {
    const auto [parts, etag] = sent_parts();
    const auto before = bucket_.head(name_);
    std::exception_ptr refused;
    try {
      bucket_.complete_upload(name_, state_.upload_id, parts);
    } catch (const Error&) {
      refused = std::current_exception();
      if (options_.cancelled && *options_.cancelled) throw;
    }
    failpoint::pass("upload.complete.sent");
    const auto facts = bucket_.head(name_);
    if (!facts || facts->bytes != plan_.file_bytes || !is_ours(before, *facts, etag, !refused)) {
      if (refused) std::rethrow_exception(refused);
      refuse_object(facts, etag);
    }
    if (refused) log::debug("s3", "{}: completed, though the answer to that was lost", shown());
    state_ = {};
    changed();
    return {plan_.file_bytes, facts->etag, num_sent_, static_cast<int>(parts.size()) - num_sent_};
  }

  // The ETag decides where it is made of MD5s. Where it says nothing, the answer to Complete does;
  // where that one says nothing either, the upload must be gone and the object another one.
  bool is_ours(const std::optional<ObjectFacts>& before, const ObjectFacts& facts,
               const std::string& etag, bool was_confirmed) {
    if (!etag.empty() && num_parts_of_etag(facts.etag)) return facts.etag == etag;
    if (was_confirmed) return true;
    const bool is_new = !before || before->etag != facts.etag;
    return is_new && !bucket_.list_parts(name_, state_.upload_id);
  }

  std::shared_ptr<Session> session_;
  std::string name_;
  UploadState& state_;
  const UploadOptions& options_;
  UniqueFd file_;
  Bucket bucket_;
  PartPlan plan_;
  std::vector<PartDigests> digests_;
  std::mutex mutex_;  // state_.parts, num_sent_ and on_change while parts are sent
  int num_sent_ = 0;
};

}  // namespace

UploadResult upload_file(const std::shared_ptr<Session>& session, const std::filesystem::path& path,
                         std::string_view name, UploadState& state, const UploadOptions& options) {
  return Upload(session, path, name, state, options).run();
}

}  // namespace wmtp::s3
