// The input is a part file behind its key; the checksums of whole records are made right.
#include <cstring>

#include "fuzz/fuzz.h"
#include "support/temp_dir.h"
#include "wmtp/core/checksum.h"
#include "wmtp/core/error.h"
#include "wmtp/data/plan/signal_cache.h"

namespace {

constexpr std::size_t kRecordHeader = 16;

std::uint32_t number_at(const std::string& text, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, text.data() + at, sizeof value);
  return value;
}

void mend_checksums(std::string& file, std::size_t at) {
  while (file.size() - at >= kRecordHeader + 4) {
    const std::size_t body = kRecordHeader + std::size_t{number_at(file, at + 12)} * 4;
    if (file.size() - at < body + 4) return;
    const std::uint32_t crc = wmtp::crc32c(std::string_view(file).substr(at, body));
    std::memcpy(file.data() + at + body, &crc, sizeof crc);
    at += body + 4;
  }
}

}  // namespace

WMTP_FUZZ_TARGET(signal_cache) {
  using namespace wmtp;
  static const test::TempDir folder;
  const std::string key(64, 'a');
  std::string file = "WMTPSIG1" + key + std::string(fuzz::text_of(bytes));
  mend_checksums(file, 8 + key.size());
  test::write_file(folder / "part-1.wsig", file);
  data::SignalCache cache(folder.path(), key);
  cache.has({.sample_id = 7, .length = 2});
  data::HostBatch batch;
  cache.find(batch);
  if (cache.num_rows() == 0) throw Error(ErrorKind::data, "signals", "no whole record");
}
