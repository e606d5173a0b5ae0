// Records of a spool: a line each, {"seq": 7, "kind": "metrics", "payload": {..}}. Payloads:
//   metrics   {"step", "time_ms", "values": {key: number, or "NaN", "Infinity", "-Infinity"}}
//   params, tags  {key: text}
//   inputs    {"datasets": [..], "models": [..]}
//   artifact  {"name", "path", "copied"}: copied: the path is below the spool's folder
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/core/json.h"
#include "wmtp/tracking/mlflow/rest/server.h"

namespace wmtp::tracking::mlflow {

inline constexpr std::size_t kMaxRecordBytes = std::size_t{4} << 20;
inline constexpr std::uint64_t kMaxSeq = std::uint64_t{1} << 53;

enum class RecordKind { metrics, params, tags, inputs, artifact };
std::string_view name_of(RecordKind kind);

struct Record {
  std::uint64_t seq = 0;
  RecordKind kind = RecordKind::metrics;
  OrderedJson payload;
};

std::string line_of(const Record& record);  // with its line feed
// Nothing for a line that is no record, whatever it is.
std::optional<Record> parse_record(std::string_view line);

// REQUIRES the kind.
std::vector<Metric> metrics_of(const Record& record);
std::vector<KeyValue> pairs_of(const Record& record);  // params or tags

}  // namespace wmtp::tracking::mlflow
