#include "wmtp/data/sections/section_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "wmtp/core/checksum.h"
#include "wmtp/core/failpoint.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::data {
namespace {

constexpr std::uint32_t kByteOrderProbe = 0x01020304;
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
constexpr std::size_t kSectionAlignment = 64;

struct Header {
  char magic[8];
  std::uint32_t version, byte_order, num_sections, reserved;
  std::uint64_t file_bytes, crc_offset;
  struct {
    std::uint64_t offset, bytes;
  } sections[kMaxSections];
};
static_assert(sizeof(Header) + kFactsBytes + 4 <= kHeaderBytes);
constexpr std::size_t kFactsOffset = 512;
static_assert(sizeof(Header) <= kFactsOffset && kFactsOffset + kFactsBytes + 4 <= kHeaderBytes);

std::uint64_t aligned(std::uint64_t offset) {
  return (offset + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment;
}

// Gathers the body's bytes into CRCs of a MiB each while they are written.
class CheckedSink {
 public:
  explicit CheckedSink(storage::AtomicFile& file) : file_(file) {}
  void write(std::span<const std::byte> bytes) {
    file_.write(bytes);
    while (!bytes.empty()) {
      const std::size_t take = std::min(bytes.size(), kChunkBytes - filled_);
      crc_ = crc32c(bytes.first(take), crc_);
      filled_ += take;
      bytes = bytes.subspan(take);
      if (filled_ == kChunkBytes) close_chunk();
    }
  }
  void pad_to(std::uint64_t offset) {
    const std::vector<std::byte> zeros(offset - file_.size());
    write(zeros);
  }
  std::vector<std::uint32_t> finish() {
    if (filled_ > 0) close_chunk();
    return std::move(crcs_);
  }

 private:
  void close_chunk() {
    crcs_.push_back(crc_);
    crc_ = 0, filled_ = 0;
  }
  storage::AtomicFile& file_;
  std::uint32_t crc_ = 0;
  std::size_t filled_ = 0;
  std::vector<std::uint32_t> crcs_;
};

Header plan(const SectionFileContent& content) {
  Header header{};
  std::memcpy(header.magic, content.format.magic.data(), sizeof(header.magic));
  header.version = content.format.version;
  header.byte_order = kByteOrderProbe;
  header.num_sections = static_cast<std::uint32_t>(content.sections.size());
  std::uint64_t offset = kHeaderBytes;
  for (std::size_t i = 0; i < content.sections.size(); ++i) {
    header.sections[i] = {offset, content.sections[i]->size()};
    offset = aligned(offset + content.sections[i]->size());
  }
  header.crc_offset = offset;
  const std::uint64_t chunks = (offset - kHeaderBytes + kChunkBytes - 1) / kChunkBytes;
  header.file_bytes = offset + 4 * chunks;
  return header;
}

std::array<std::byte, kHeaderBytes> header_bytes(const Header& header,
                                                 std::span<const std::byte> facts) {
  std::array<std::byte, kHeaderBytes> bytes{};
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + kFactsOffset, facts.data(), facts.size());
  const std::uint32_t crc = crc32c(std::span<const std::byte>(bytes).first(kHeaderBytes - 4));
  std::memcpy(bytes.data() + kHeaderBytes - 4, &crc, 4);
  return bytes;
}

// Empty: the header is good.
std::string header_problem(std::span<const std::byte> file, const FileFormat& format,
                           Header& header) {
  if (file.size() < kHeaderBytes)
    return fmt::format("{} bytes, shorter than its header", file.size());
  std::memcpy(&header, file.data(), sizeof(header));
  if (std::string_view(header.magic, 8) != format.magic) return "not a file of this kind";
  std::uint32_t crc = 0;
  std::memcpy(&crc, file.data() + kHeaderBytes - 4, 4);
  if (crc != crc32c(file.first(kHeaderBytes - 4))) return "bytes 0-4095 (header) are damaged";
  if (header.byte_order != kByteOrderProbe) return "written on a machine of other byte order";
  if (header.version != format.version)
    return fmt::format("format version {}, this program reads {}", header.version, format.version);
  if (header.file_bytes != file.size())
    return fmt::format("{} bytes long, its header says {}", file.size(), header.file_bytes);
  if (header.num_sections > kMaxSections) return "too many sections";
  const std::uint64_t body = header.crc_offset;
  if (body < kHeaderBytes || body > file.size() || body % kSectionAlignment != 0)
    return "impossible CRC offset";
  const std::uint64_t chunks = (body - kHeaderBytes + kChunkBytes - 1) / kChunkBytes;
  if (file.size() - body != 4 * chunks) return "CRC table of the wrong length";
  for (std::uint32_t i = 0; i < header.num_sections; ++i) {
    const auto [offset, bytes] = header.sections[i];
    if (offset % kSectionAlignment != 0 || offset < kHeaderBytes || offset > body ||
        bytes > body - offset)
      return fmt::format("section {} lies outside the file", i);
  }
  return {};
}

failpoint::Action pass_failpoint(const SectionFileContent& content,
                                 const std::filesystem::path& path, std::string_view moment) {
  const auto action = failpoint::pass(fmt::format("{}.{}", content.failpoints, moment));
  if (const int error = failpoint::error_number(action))
    throw Error(
        ErrorKind::io, "data",
        fmt::format("cannot write {}: {}", path.string(), std::generic_category().message(error)));
  return action;
}

}  // namespace

void write_section_file(const std::filesystem::path& path, const SectionFileContent& content) {
  WMTP_CHECK(content.sections.size() <= kMaxSections && content.facts.size() <= kFactsBytes,
             "section file too rich");
  const Header header = plan(content);
  storage::AtomicFile file(path);
  file.write(header_bytes(header, content.facts));
  CheckedSink sink(file);
  std::vector<std::byte> buffer(kChunkBytes);
  for (std::size_t i = 0; i < content.sections.size(); ++i) {
    sink.pad_to(header.sections[i].offset);
    if (i + 1 == content.sections.size()) pass_failpoint(content, path, "write.half");
    for (std::uint64_t at = 0; at < header.sections[i].bytes; at += buffer.size()) {
      const auto part = std::span(buffer).first(
          std::min<std::uint64_t>(buffer.size(), header.sections[i].bytes - at));
      content.sections[i]->read(at, part);
      sink.write(part);
    }
  }
  sink.pad_to(header.crc_offset);
  const auto crcs = sink.finish();
  file.write(std::as_bytes(std::span(crcs)));
  if (pass_failpoint(content, path, "rename.before") == failpoint::Action::skip) return;
  file.commit();
}

SectionFile SectionFile::open(const std::filesystem::path& path, const FileFormat& format) {
  SectionFile result;
  result.format_ = format;
  result.file_ = storage::MappedFile::open(path);
  const auto bytes = result.file_.bytes();
  Header header;
  if (const std::string problem = header_problem(bytes, format, header); !problem.empty())
    result.damaged(problem);
  std::memcpy(result.facts_.data(), bytes.data() + kFactsOffset, kFactsBytes);
  for (std::uint32_t i = 0; i < header.num_sections; ++i)
    result.sections_.push_back({header.sections[i].offset, header.sections[i].bytes});
  result.body_end_ = header.crc_offset;
  const auto table = bytes.subspan(header.crc_offset);
  result.crcs_ = {reinterpret_cast<const std::uint32_t*>(table.data()), table.size() / 4};
  result.checked_ = std::make_unique<std::atomic<std::uint8_t>[]>(result.crcs_.size());
  return result;
}

std::vector<std::byte> SectionFile::peek_facts(const std::filesystem::path& path,
                                               const FileFormat& format) {
  try {
    const storage::MappedFile file = storage::MappedFile::open(path);
    Header header;
    if (!header_problem(file.bytes(), format, header).empty()) return {};
    const auto facts = file.bytes().subspan(kFactsOffset, kFactsBytes);
    return {facts.begin(), facts.end()};
  } catch (const Error&) {
    return {};
  }
}

std::uint64_t SectionFile::section_size(std::size_t index) const {
  if (index >= sections_.size()) damaged(fmt::format("section {} is missing", index));
  return sections_[index].bytes;
}

std::span<const std::byte> SectionFile::section_bytes(std::size_t index, std::uint64_t count,
                                                      std::size_t width) const {
  const std::uint64_t bytes = section_size(index);
  if (count > bytes / width || count * width != bytes)
    damaged(fmt::format("section {} has {} bytes, expected {} values of {}", index, bytes, count,
                        width));
  return file_.bytes().subspan(sections_[index].offset, bytes);
}

void SectionFile::verify(std::span<const std::byte> bytes) const {
  if (bytes.empty()) return;
  const auto begin = static_cast<std::uint64_t>(bytes.data() - file_.bytes().data()) - kHeaderBytes;
  const std::uint64_t last = (begin + bytes.size() - 1) / kChunkBytes;
  for (std::uint64_t chunk = begin / kChunkBytes; chunk <= last; ++chunk)
    if (!checked_[chunk].load(std::memory_order_relaxed)) verify_chunk(chunk);
}

void SectionFile::verify_section(std::size_t index) const {
  verify(file_.bytes().subspan(sections_.at(index).offset, sections_[index].bytes));
}

void SectionFile::verify_chunk(std::size_t chunk) const {
  const std::uint64_t begin = kHeaderBytes + chunk * kChunkBytes;
  const std::uint64_t end = std::min<std::uint64_t>(begin + kChunkBytes, body_end_);
  if (crc32c(file_.bytes().subspan(begin, end - begin)) != crcs_[chunk])
    damaged(fmt::format("bytes {}-{} are damaged (CRC-32C)", begin, end - 1));
  checked_[chunk].store(1, std::memory_order_relaxed);
}

void SectionFile::damaged(std::string_view fact) const {
  throw Error(ErrorKind::data, "data", fmt::format("{}: {}", file_.path().string(), fact),
              format_.rebuild_hint);
}

}  // namespace wmtp::data
