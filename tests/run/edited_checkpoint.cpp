#include "run/edited_checkpoint.h"

#include <cstring>

#include "support/temp_dir.h"
#include "wmtp/core/checksum.h"

namespace wmtp::test {
namespace {

namespace fs = std::filesystem;

checkpoint::Manifest manifest_of(const fs::path& folder) {
  return checkpoint::parse_manifest(slurp(folder / "manifest.json"), folder.string());
}

void write_manifest(const fs::path& folder, checkpoint::Manifest& manifest) {
  write_file(folder / "manifest.json", checkpoint::to_text(manifest));
}

void copy_folder(const fs::path& from, const fs::path& to) {
  fs::create_directories(to.parent_path());
  fs::copy(from, to, fs::copy_options::recursive);
}

// Zeroes a box in the bytes of its file; its new CRC.
std::uint32_t zero_box(std::string& bytes, const std::string& tensor) {
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  const Json header = Json::parse(bytes.substr(8, header_bytes));
  const auto range = header.at(tensor).at("data_offsets").get<std::vector<std::size_t>>();
  char* begin = bytes.data() + 8 + header_bytes + range[0];
  std::memset(begin, 0, range[1] - range[0]);
  return crc32c(std::string_view(begin, range[1] - range[0]));
}

void copy_with_text(const fs::path& from, const fs::path& to, std::string_view name,
                    const std::function<void(std::string&)>& edit) {
  copy_folder(from, to);
  checkpoint::Manifest manifest = manifest_of(to);
  std::string text = slurp(to / name);
  edit(text);
  for (checkpoint::FileRecord& file : manifest.files)
    if (file.path == name) {
      file.bytes = text.size();
      file.sha256 = sha256_hex(text);
      file.crc32c = crc32c(text);
    }
  write_file(to / name, text);
  write_manifest(to, manifest);
}

}  // namespace

void copy_with_state(const fs::path& from, const fs::path& to,
                     const std::function<void(Json&)>& edit) {
  copy_with_text(from, to, "trainer_state.json", [&edit](std::string& text) {
    Json state = Json::parse(text);
    edit(state);
    text = state.dump();
  });
}

void copy_with_manifest(const fs::path& from, const fs::path& to,
                        const std::function<void(checkpoint::Manifest&)>& edit) {
  copy_folder(from, to);
  checkpoint::Manifest manifest = manifest_of(to);
  edit(manifest);
  write_manifest(to, manifest);
}

void copy_with_config(const fs::path& from, const fs::path& to,
                      const std::function<void(std::string&)>& edit) {
  copy_with_text(from, to, "config.yaml", edit);
}

int copy_with_zeros(const fs::path& from, const fs::path& to, std::string_view tensors) {
  copy_folder(from, to);
  checkpoint::Manifest manifest = manifest_of(to);
  int found = 0;
  for (checkpoint::FileRecord& file : manifest.files) {
    if (!file.is_shard()) continue;
    std::string bytes = slurp(to / file.path);
    for (checkpoint::BoxRecord& box : file.boxes) {
      if (!box.tensor.ends_with(tensors)) continue;
      box.crc32c = zero_box(bytes, box.tensor);
      ++found;
    }
    file.sha256 = sha256_hex(bytes);
    write_file(to / file.path, bytes);
  }
  write_manifest(to, manifest);
  return found;
}

}  // namespace wmtp::test
