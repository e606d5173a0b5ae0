#include "wmtp/checkpoint/format/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "wmtp/checkpoint/format/damage.h"
#include "wmtp/checkpoint/format/manifest_text.h"
#include "wmtp/core/checksum.h"
#include "wmtp/storage/open_file.h"

namespace wmtp::checkpoint {
namespace {

constexpr JsonLimits kManifestLimits{.max_bytes = std::size_t{512} << 20, .max_depth = 8};
constexpr std::string_view kFormat = "wmtp-checkpoint", kTailKey = "\"self_sha256\":\"";
constexpr std::size_t kTailBytes = 64 + 3;  // digits, quote, brace, line feed

[[noreturn]] void damaged(std::string_view text, std::string_view folder, std::string fact) {
  throw DamageError({std::string(kManifestFile), 0, text.size(), std::move(fact)}, folder);
}

// A file that never was ours: valid JSON without either of the two words that no single damaged
// byte can remove together.
bool is_foreign(std::string_view text) {
  if (text.find(kFormat) != text.npos || text.find("self_sha256") != text.npos) return false;
  try {
    return parse_json(text, kManifestFile, kManifestLimits).is_object();
  } catch (const Error&) {
    return false;
  }
}

[[noreturn]] void refuse_foreign(std::string_view folder, std::string_view fact) {
  throw Error(ErrorKind::config, "checkpoint", fmt::format("{}: {}", folder, fact),
              "it is left as it is; choose another folder, or another version of wmtp");
}

std::string check_self_hash(std::string_view text, std::string_view folder) {
  const std::size_t key_at = text.size() - std::min(text.size(), kTailKey.size() + kTailBytes);
  const bool formed = text.substr(key_at, kTailKey.size()) == kTailKey && text.ends_with("\"}\n");
  if (!formed && is_foreign(text)) refuse_foreign(folder, "its manifest.json is not one of wmtp");
  if (!formed) damaged(text, folder, "it does not end with its self_sha256");
  const std::size_t digits_at = key_at + kTailKey.size();
  const std::string said(text.substr(digits_at, 64));
  Sha256 hash;
  hash.update(text.substr(0, digits_at));
  hash.update(std::string(64, '0'));
  hash.update(text.substr(digits_at + 64));
  if (const std::string is = to_hex(hash.finish()); is != said)
    damaged(text, folder, fmt::format("its SHA-256 is {}, it says {}", is, said));
  return said;
}

void check_version(FieldReader& fields, std::string_view folder) {
  const std::string format = fields.text("format");
  if (format != kFormat)
    refuse_foreign(folder, fmt::format("its manifest is of the format \"{:.40}\"", format));
  const std::int64_t version = fields.integer("version", 1);
  if (version > kManifestVersion)
    refuse_foreign(folder, fmt::format("version {} of the checkpoint format, this program reads up "
                                       "to {}",
                                       version, kManifestVersion));
}

CheckpointKind read_kind(FieldReader& fields) {
  const std::string kind = fields.text("kind");
  for (const auto known : {CheckpointKind::sharded, CheckpointKind::lora})
    if (kind == name_of(known)) return known;
  fields.refuse(fmt::format("unknown kind \"{:.40}\"", kind));
}

Fingerprints read_fingerprints(const Json& object) {
  FieldReader fields(object, "fingerprints");
  Fingerprints read{fields.text("config"), fields.text("data"), fields.text("tokenizer"),
                    fields.text("base")};
  fields.finish();
  return read;
}

Manifest read_fields(const Json& root, std::string_view folder) {
  FieldReader fields(root, std::string(kManifestFile));
  check_version(fields, folder);
  Manifest manifest;
  manifest.model = fields.text("model");
  manifest.step = fields.integer("step", 0);
  manifest.kind = read_kind(fields);
  manifest.run_id = fields.text("run_id");
  manifest.created = fields.text("created");
  manifest.wmtp = fields.text("wmtp");
  manifest.world_size =
      static_cast<int>(std::min<std::int64_t>(fields.integer("world_size", 1), INT32_MAX));
  manifest.strategy = fields.text("strategy");
  manifest.fingerprints = read_fingerprints(fields.at("fingerprints"));
  FieldReader tensors(fields.at("tensors"), "tensors");
  manifest.model_tensors = read_table(tensors.at("model"), "tensors.model");
  manifest.optim_tensors = read_table(tensors.at("optim"), "tensors.optim");
  tensors.finish();
  manifest.files = read_files(fields.at("files"), "files");
  manifest.self_sha256 = fields.digest("self_sha256");
  fields.finish();
  return manifest;
}

// A shard lies in its part's folder, everything else beside the manifest; nothing twice, nothing
// that a file system without case would take for the same.
void check_paths(const Manifest& manifest) {
  auto refuse = [](std::string fact) { throw Error(ErrorKind::data, "checkpoint", fact); };
  std::set<std::string> seen;
  for (const FileRecord& file : manifest.files) {
    storage::check_relative_name(file.path, kManifestFile);
    const auto slash = file.path.find('/');
    const std::string folder = slash == std::string::npos ? "" : file.path.substr(0, slash);
    const bool in_part = folder == name_of(Part::model) || folder == name_of(Part::optim);
    const bool one_level = slash == file.path.rfind('/');
    if (!one_level || file.is_shard() != in_part || file.path == kManifestFile ||
        (slash != std::string::npos && !in_part))
      refuse(fmt::format("the file \"{:.80}\" has no business there", file.path));
    std::string lower = file.path;
    for (char& c : lower)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (!seen.insert(lower).second) refuse(fmt::format("\"{:.80}\" occurs twice", file.path));
  }
}

}  // namespace

std::string_view name_of(CheckpointKind kind) {
  return kind == CheckpointKind::sharded ? "sharded" : "lora";
}

const FileRecord* Manifest::find(std::string_view path) const {
  for (const FileRecord& file : files)
    if (file.path == path) return &file;
  return nullptr;
}

std::uint64_t Manifest::total_bytes() const {
  return std::accumulate(files.begin(), files.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const auto& file) { return sum + file.bytes; });
}

Manifest parse_manifest(std::string_view text, std::string_view folder) {
  if (text.size() > kManifestLimits.max_bytes)
    damaged(text, folder,
            fmt::format("{} bytes, the limit is {}", text.size(), kManifestLimits.max_bytes));
  check_self_hash(text, folder);
  try {
    Manifest manifest = read_fields(parse_json(text, kManifestFile, kManifestLimits), folder);
    check_paths(manifest);
    if (const std::string fault = find_box_fault(manifest); !fault.empty())
      throw Error(ErrorKind::data, "checkpoint", fault);
    return manifest;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    damaged(text, folder, error.fact());
  }
}

}  // namespace wmtp::checkpoint
