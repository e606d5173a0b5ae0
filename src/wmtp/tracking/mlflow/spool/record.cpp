#include "wmtp/tracking/mlflow/spool/record.h"

#include <array>
#include <limits>
#include <utility>

#include "wmtp/core/error.h"

namespace wmtp::tracking::mlflow {
namespace {

using KindName = std::pair<RecordKind, std::string_view>;
constexpr std::array<KindName, 5> kKindNames = {{{RecordKind::metrics, "metrics"},
                                                 {RecordKind::params, "params"},
                                                 {RecordKind::tags, "tags"},
                                                 {RecordKind::inputs, "inputs"},
                                                 {RecordKind::artifact, "artifact"}}};

// JSON has no such numbers; the text is that of tracking::json_number.
std::optional<double> number_of(const OrderedJson& value) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (value.is_number()) return value.get<double>();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity") return kInfinity;
  if (value == "-Infinity") return -kInfinity;
  return std::nullopt;
}

bool is_integer(const OrderedJson& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end() || !at->is_number_integer()) return false;
  return !at->is_number_unsigned() || at->get<std::uint64_t>() <= INT64_MAX;
}

bool is_text(const OrderedJson& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string();
}

bool has_shape(RecordKind kind, const OrderedJson& payload) {
  if (!payload.is_object()) return false;
  if (kind == RecordKind::metrics) {
    if (!is_integer(payload, "step") || !is_integer(payload, "time_ms")) return false;
    const auto values = payload.find("values");
    if (values == payload.end() || !values->is_object()) return false;
    for (const OrderedJson& value : *values)
      if (!number_of(value)) return false;
  }
  if (kind == RecordKind::params || kind == RecordKind::tags)
    for (const OrderedJson& value : payload)
      if (!value.is_string()) return false;
  if (kind == RecordKind::artifact) {
    const auto copied = payload.find("copied");
    return is_text(payload, "name") && is_text(payload, "path") && copied != payload.end() &&
           copied->is_boolean();
  }
  return true;
}

}  // namespace

std::string_view name_of(RecordKind kind) {
  for (const auto& [known, name] : kKindNames)
    if (known == kind) return name;
  return "?";
}

std::string line_of(const Record& record) {
  const OrderedJson line{
      {"seq", record.seq}, {"kind", name_of(record.kind)}, {"payload", record.payload}};
  return line.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

std::optional<Record> parse_record(std::string_view line) {
  OrderedJson json;
  try {
    json = parse_json(line, "spool", {.max_bytes = kMaxRecordBytes, .max_depth = 16});
  } catch (const Error&) {
    return std::nullopt;
  }
  if (!json.is_object() || !is_integer(json, "seq") || !is_text(json, "kind") ||
      !json.contains("payload"))
    return std::nullopt;
  const auto seq = json["seq"].get<std::int64_t>();
  if (seq < 1 || static_cast<std::uint64_t>(seq) > kMaxSeq) return std::nullopt;
  for (const auto& [kind, name] : kKindNames) {
    if (json["kind"] != name || !has_shape(kind, json["payload"])) continue;
    return Record{static_cast<std::uint64_t>(seq), kind, std::move(json["payload"])};
  }
  return std::nullopt;
}

std::vector<Metric> metrics_of(const Record& record) {
  const OrderedJson& payload = record.payload;
  const auto step = payload["step"].get<std::int64_t>();
  const auto time_ms = payload["time_ms"].get<std::int64_t>();
  std::vector<Metric> metrics;
  for (const auto& [key, value] : payload["values"].items())
    metrics.push_back({key, number_of(value).value_or(0), time_ms, step});
  return metrics;
}

std::vector<KeyValue> pairs_of(const Record& record) {
  std::vector<KeyValue> pairs;
  for (const auto& [key, value] : record.payload.items())
    pairs.emplace_back(key, value.get<std::string>());
  return pairs;
}

}  // namespace wmtp::tracking::mlflow
