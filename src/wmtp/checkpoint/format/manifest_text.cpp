#include "wmtp/checkpoint/format/manifest_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "wmtp/core/checksum.h"

namespace wmtp::checkpoint {
namespace {

constexpr std::string_view kSelfKey = "\"self_sha256\":\"";

void append_field(std::string& out, std::string_view key, std::string_view value) {
  append_string(out, key);
  out.push_back(':');
  append_string(out, value);
  out.push_back(',');
}

void close_list(std::string& out, char open, char close) {
  if (out.back() == open)
    out.push_back(close);
  else
    out.back() = close;  // the last comma
}

void append_box(std::string& out, const BoxRecord& box) {
  append_string(out, box.tensor);
  out += fmt::format(":{{\"offsets\":[{}],\"shape\":[{}],\"crc32c\":\"{:08x}\"}},",
                     fmt::join(box.offsets, ","), fmt::join(box.shape, ","), box.crc32c);
}

void append_file(std::string& out, const FileRecord& file) {
  out += "{\"path\":";
  append_string(out, file.path);
  out += fmt::format(",\"bytes\":{},\"sha256\":\"{}\",\"{}\":\"{:08x}\"", file.bytes, file.sha256,
                     file.is_shard() ? "header_crc32c" : "crc32c", file.crc32c);
  if (file.is_shard()) {
    out += ",\"tensors\":{";
    for (const BoxRecord& box : file.boxes) append_box(out, box);
    close_list(out, '{', '}');
  }
  out += "},";
}

}  // namespace

void append_string(std::string& out, std::string_view text) {
  out += Json(text).dump();
}

void append_table(std::string& out, const TensorTable& table) {
  out.push_back('{');
  for (const auto& [name, tensor] : table) {
    append_string(out, name);
    out += fmt::format(":{{\"dtype\":\"{}\",\"shape\":[{}]}},", name_of(tensor.dtype),
                       fmt::join(tensor.shape, ","));
  }
  close_list(out, '{', '}');
}

void append_files(std::string& out, const std::vector<FileRecord>& files) {
  out.push_back('[');
  for (const FileRecord& file : files) append_file(out, file);
  close_list(out, '[', ']');
}

std::string to_text(const RankPart& part) {
  std::string out = "{\"state\":";
  append_string(out, part.state_hash);
  out += ",\"model\":";
  append_table(out, part.model_tensors);
  out += ",\"optim\":";
  append_table(out, part.optim_tensors);
  out += ",\"files\":";
  append_files(out, part.files);
  return out + "}";
}

std::string to_text(Manifest& manifest) {
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  std::string out =
      fmt::format("{{\"format\":\"wmtp-checkpoint\",\"version\":{},", kManifestVersion);
  append_field(out, "model", manifest.model);
  out += fmt::format("\"step\":{},", manifest.step);
  append_field(out, "kind", name_of(manifest.kind));
  append_field(out, "run_id", manifest.run_id);
  append_field(out, "created", manifest.created);
  append_field(out, "wmtp", manifest.wmtp);
  out += fmt::format("\"world_size\":{},", manifest.world_size);
  append_field(out, "strategy", manifest.strategy);
  out += "\n \"fingerprints\":{";
  append_field(out, "config", manifest.fingerprints.config);
  append_field(out, "data", manifest.fingerprints.data);
  append_field(out, "tokenizer", manifest.fingerprints.tokenizer);
  append_field(out, "base", manifest.fingerprints.base);
  close_list(out, '{', '}');
  out += ",\n \"tensors\":{\"model\":";
  append_table(out, manifest.model_tensors);
  out += ",\"optim\":";
  append_table(out, manifest.optim_tensors);
  out += "},\n \"files\":";
  append_files(out, manifest.files);
  out += ",\n ";
  out += kSelfKey;
  const std::size_t digits = out.size();
  out += std::string(64, '0') + "\"}\n";
  manifest.self_sha256 = sha256_hex(out);
  return out.replace(digits, 64, manifest.self_sha256);
}

}  // namespace wmtp::checkpoint
