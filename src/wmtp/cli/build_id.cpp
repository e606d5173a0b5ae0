#include "wmtp/cli/build_id.h"

#include <link.h>

#include <cstring>
#include <span>

#include "wmtp/cli/build_info.h"
#include "wmtp/core/checksum.h"

namespace wmtp::cli {
namespace {

// The notes of one segment: header, name and payload, each padded to 4 bytes.
std::string id_in_notes(const char* at, std::size_t num_bytes) {
  const char* const end = at + num_bytes;
  while (at + sizeof(ElfW(Nhdr)) <= end) {
    ElfW(Nhdr) note{};
    std::memcpy(&note, at, sizeof note);
    const char* name = at + sizeof note;
    const char* payload = name + (note.n_namesz + 3) / 4 * 4;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
      return to_hex({reinterpret_cast<const std::uint8_t*>(payload), note.n_descsz});
    at = payload + (note.n_descsz + 3) / 4 * 4;
  }
  return "";
}

int visit(dl_phdr_info* module, std::size_t, void* result) {
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = module->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const char* start = reinterpret_cast<const char*>(module->dlpi_addr + segment.p_vaddr);
    const std::string id = id_in_notes(start, segment.p_memsz);
    if (!id.empty()) *static_cast<std::string*>(result) = id;
  }
  return 1;  // the first module is the program; the others are not asked
}

}  // namespace

std::string build_id() {
  std::string id;
  ::dl_iterate_phdr(visit, &id);
  return id.empty() ? std::string(kVersion) + " " + kCommit : id;
}

}  // namespace wmtp::cli
