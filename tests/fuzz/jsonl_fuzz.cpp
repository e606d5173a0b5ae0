#include "fuzz/fuzz.h"
#include "wmtp/core/error.h"
#include "wmtp/data/index/index_rows.h"
#include "wmtp/data/index/json_scan.h"

namespace {

constexpr std::uint64_t kMaxLineBytes = 1000;

// The fast reader and the exact one must be of one mind.
void compare_readers(const wmtp::data::Line& line, wmtp::data::RowParser& parser) {
  using namespace wmtp;
  const data::JsonScan scan = data::scan_json(line.text);
  std::vector<std::string> keys;
  const auto bad = parser.keys(line, keys);
  fuzz::require(!bad || scan.bad || bad->cause == data::BadCause::not_an_object,
                "a line refused without a reason");
  fuzz::require(bad || !scan.bad, "a bad line that passed");
  std::string_view text;
  parser.parse_text(line, "text", text);
}

}  // namespace

WMTP_FUZZ_TARGET(jsonl) {
  using namespace wmtp;
  data::LineChunk chunk;
  chunk.bytes = fuzz::text_of(bytes);
  chunk.readable_bytes = bytes.size();
  data::RowParser parser;
  data::for_each_line(chunk, [&](const data::Line& line) {
    if (!data::is_blank(line.text)) compare_readers(line, parser);
  });
  const data::ChunkRows rows = data::read_index_rows(chunk, kMaxLineBytes, nullptr);
  for (const data::BadLine& bad : rows.bad)
    fuzz::require(bad.row < rows.flags.size() && rows.flags[bad.row] == data::kRowBad,
                  "a bad line without a row");
  if (!rows.bad.empty()) throw Error(ErrorKind::data, "data", rows.bad.front().text);
}
