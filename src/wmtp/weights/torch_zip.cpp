#include "wmtp/weights/torch_zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/core/planted_fault.h"

namespace wmtp::weights {
namespace {

constexpr std::uint32_t kEndSignature = 0x06054b50, kEnd64Signature = 0x06064b50,
                        kLocator64Signature = 0x07064b50, kCentralSignature = 0x02014b50,
                        kLocalSignature = 0x04034b50;
constexpr std::uint64_t kMaxEntries = 1'000'000;
constexpr std::uint64_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kCentralBytes = 46,
                        kLocalBytes = 30;

// Little-endian fields with every access checked against the file.
class ZipFields {
 public:
  ZipFields(std::span<const std::byte> bytes, const std::string& origin)
      : bytes_(bytes), origin_(origin) {}

  template <class Int>
  Int at(std::uint64_t offset) const {
    Int value;
    std::memcpy(&value, part(offset, sizeof(Int)).data(), sizeof(Int));
    return value;
  }
  std::span<const std::byte> part(std::uint64_t offset, std::uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset + planted_off_by_one)
      throw Error(ErrorKind::data, "checkpoint",
                  fmt::format("{}: bytes {}..{} lie outside the file of {} bytes", origin_, offset,
                              offset + size, bytes_.size()),
                  "is the file complete?");
    return bytes_.subspan(offset, size);
  }
  std::string text(std::uint64_t offset, std::uint64_t size) const {
    const auto bytes = part(offset, size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::uint64_t size() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  const std::string& origin_;
};

struct Directory {
  std::uint64_t begin = 0, size = 0, num_entries = 0;
};

// The end record is the last one whose comment reaches exactly to the end of the file.
std::uint64_t find_end_record(const ZipFields& file) {
  if (file.size() < kEndBytes) return file.size();
  const std::uint64_t lowest =
      file.size() > kEndBytes + 65535 ? file.size() - kEndBytes - 65535 : 0;
  for (std::uint64_t at = file.size() - kEndBytes + 1; at-- > lowest;)
    if (file.at<std::uint32_t>(at) == kEndSignature &&
        at + kEndBytes + file.at<std::uint16_t>(at + 20) == file.size())
      return at;
  return file.size();
}

Directory find_directory(const ZipFields& file, std::uint64_t end) {
  const bool wide =
      end >= kLocatorBytes && file.at<std::uint32_t>(end - kLocatorBytes) == kLocator64Signature;
  if (!wide)
    return {file.at<std::uint32_t>(end + 16), file.at<std::uint32_t>(end + 12),
            file.at<std::uint16_t>(end + 10)};
  const auto record = file.at<std::uint64_t>(end - kLocatorBytes + 8);
  file.part(record, kEnd64Bytes);
  if (file.at<std::uint32_t>(record) != kEnd64Signature) return {file.size(), 0, 0};
  return {file.at<std::uint64_t>(record + 48), file.at<std::uint64_t>(record + 40),
          file.at<std::uint64_t>(record + 32)};
}

// Sizes and offset that do not fit 32 bits lie in the extra field with id 1, in this order.
void read_wide_fields(const ZipFields& file, std::uint64_t at, std::uint64_t end,
                      std::initializer_list<std::uint64_t*> values) {
  while (at + 4 <= end) {
    const auto id = file.at<std::uint16_t>(at), size = file.at<std::uint16_t>(at + 2);
    if (id == 1) {
      std::uint64_t field = at + 4;
      for (std::uint64_t* value : values)
        if (*value == 0xFFFFFFFF && field + 8 <= std::min(end, at + 4 + size)) {
          *value = file.at<std::uint64_t>(field);
          field += 8;
        }
      return;
    }
    at += 4 + std::uint64_t{size};
  }
}

}  // namespace

TorchZip::TorchZip(storage::MappedFile file)
    : file_(std::move(file)), origin_(file_.path().string()) {
  read_directory();
  check_entries();
  find_stem();
  look_for_checksums();
}

void TorchZip::refuse(std::string_view fact) const {
  throw Error(ErrorKind::data, "checkpoint", fmt::format("{}: {}", origin_, fact),
              "is the file complete?");
}

void TorchZip::read_directory() {
  const ZipFields file(file_.bytes(), origin_);
  if (file.size() >= 2 && file.at<std::uint8_t>(0) == 0x80)
    throw Error(
        ErrorKind::config, "checkpoint",
        fmt::format("{} is a bare pickle, from before PyTorch 1.6 or not from torch.save", origin_),
        "load it once in a trusted Python and save it again");
  if (file.size() >= 263 && file.text(257, 5) == "ustar")
    throw Error(ErrorKind::config, "checkpoint",
                fmt::format("{} is a tar archive, from before PyTorch 1.6", origin_),
                "load it once in a trusted Python and save it again");
  const std::uint64_t end = find_end_record(file);
  if (end == file.size()) refuse("it is no zip archive of torch.save: no end record");
  const Directory directory = find_directory(file, end);
  if (directory.begin > end || directory.size > end - directory.begin)
    refuse(fmt::format("its directory, {} bytes at {}, lies outside the file", directory.size,
                       directory.begin));
  if (directory.num_entries > kMaxEntries || directory.num_entries > directory.size / kCentralBytes)
    refuse(fmt::format("a directory of {} bytes claims {} entries", directory.size,
                       directory.num_entries));
  std::uint64_t at = directory.begin;
  for (std::uint64_t i = 0; i < directory.num_entries; ++i) {
    if (file.at<std::uint32_t>(at) != kCentralSignature ||
        at + kCentralBytes > directory.begin + directory.size)
      refuse(fmt::format("entry {} of its directory is damaged", i));
    const auto name_bytes = file.at<std::uint16_t>(at + 28),
               extra_bytes = file.at<std::uint16_t>(at + 30);
    ZipEntry entry;
    entry.name = file.text(at + kCentralBytes, name_bytes);
    entry.crc32 = file.at<std::uint32_t>(at + 16);
    std::uint64_t stored = file.at<std::uint32_t>(at + 20);
    entry.size = file.at<std::uint32_t>(at + 24);
    entry.header_begin = file.at<std::uint32_t>(at + 42);
    const std::uint64_t extra = at + kCentralBytes + name_bytes;
    read_wide_fields(file, extra, extra + extra_bytes, {&entry.size, &stored, &entry.header_begin});
    if (entry.name.ends_with("/constants.pkl") || entry.name.find("/code/") != std::string::npos)
      throw Error(ErrorKind::config, "checkpoint",
                  fmt::format("{} is a TorchScript archive", origin_),
                  "save the state_dict() instead");
    if (file.at<std::uint16_t>(at + 8) & 1)
      refuse(fmt::format("entry {} is encrypted", entry.name));
    if (file.at<std::uint16_t>(at + 10) != 0 || stored != entry.size)
      refuse(fmt::format("entry {} is compressed", entry.name));
    if (entry.header_begin > directory.begin || directory.begin - entry.header_begin < kLocalBytes)
      refuse(
          fmt::format("entry {} begins at {}, outside the data", entry.name, entry.header_begin));
    if (file.at<std::uint32_t>(entry.header_begin) != kLocalSignature)
      refuse(fmt::format("entry {} has no local header at {}", entry.name, entry.header_begin));
    const auto local_name = file.at<std::uint16_t>(entry.header_begin + 26);
    entry.begin = entry.header_begin + kLocalBytes + local_name +
                  file.at<std::uint16_t>(entry.header_begin + 28);
    if (file.text(entry.header_begin + kLocalBytes, local_name) != entry.name)
      refuse(fmt::format("entry {} is called otherwise in its local header", entry.name));
    if (entry.begin > directory.begin || entry.size > directory.begin - entry.begin)
      refuse(fmt::format("entry {} of {} bytes does not fit the file", entry.name, entry.size));
    entries_.push_back(std::move(entry));
    at = extra + extra_bytes + file.at<std::uint16_t>(at + 32);
  }
}

void TorchZip::check_entries() {
  std::sort(entries_.begin(), entries_.end(),
            [](const auto& a, const auto& b) { return a.header_begin < b.header_begin; });
  for (std::size_t i = 1; i < entries_.size(); ++i)
    if (entries_[i - 1].begin + entries_[i - 1].size > entries_[i].header_begin)
      refuse(fmt::format("entries {} and {} overlap", entries_[i - 1].name, entries_[i].name));
  std::sort(entries_.begin(), entries_.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < entries_.size(); ++i)
    if (entries_[i - 1].name == entries_[i].name)
      refuse(fmt::format("entry {} occurs twice", entries_[i].name));
}

void TorchZip::find_stem() {
  if (entries_.empty()) refuse("the archive is empty");
  const auto slash = entries_.front().name.find('/');
  stem_ = entries_.front().name.substr(0, slash == std::string::npos ? 0 : slash + 1);
  for (const ZipEntry& entry : entries_)
    if (stem_.empty() || !entry.name.starts_with(stem_))
      refuse(
          fmt::format("entry {} lies outside the one folder of a torch.save archive", entry.name));
  if (const ZipEntry* order = find("byteorder")) {
    const auto text = bytes(*order);
    const std::string_view value(reinterpret_cast<const char*>(text.data()), text.size());
    if (value != "little")
      refuse(fmt::format("its byte order is \"{:.20}\", only little is read", value));
  }
}

// torch.serialization.set_crc32_options(False) leaves every checksum at 0.
void TorchZip::look_for_checksums() {
  has_checksums_ = std::any_of(entries_.begin(), entries_.end(),
                               [](const ZipEntry& entry) { return entry.crc32 != 0; });
  if (!has_checksums_)
    log::warn("checkpoint", "{} was saved without checksums: damage would not be noticed", origin_);
}

const ZipEntry* TorchZip::find(std::string_view name) const {
  const std::string full = stem_ + std::string(name);
  const auto at =
      std::lower_bound(entries_.begin(), entries_.end(), full,
                       [](const auto& entry, const std::string& key) { return entry.name < key; });
  return at != entries_.end() && at->name == full ? &*at : nullptr;
}

std::span<const std::byte> TorchZip::bytes(const ZipEntry& entry) const {
  return file_.bytes().subspan(entry.begin, entry.size);
}

void TorchZip::drop(const ZipEntry& entry, std::uint64_t offset, std::uint64_t size) const {
  file_.drop(entry.begin + offset, entry.begin + offset + size);
}

void TorchZip::check_crc(const ZipEntry& entry) const {
  if (!has_checksums_) return;
  const auto data = bytes(entry);
  const auto crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size());
  if (crc != entry.crc32)
    refuse(fmt::format("entry {} has CRC-32 {:08x}, its directory says {:08x}", entry.name, crc,
                       entry.crc32));
}

}  // namespace wmtp::weights
