#include "wmtp/tracking/mlflow/rest/batch.h"

#include <cmath>

#include "wmtp/tracking/mlflow/rest/limits.h"

namespace wmtp::tracking::mlflow {

OrderedJson metric_json(const Metric& metric) {
  OrderedJson value = metric.value;
  if (std::isnan(metric.value))
    value = "NaN";
  else if (std::isinf(metric.value))
    value = metric.value > 0 ? "Infinity" : "-Infinity";
  return {{"key", metric.key},
          {"value", std::move(value)},
          {"timestamp", metric.timestamp_ms},
          {"step", metric.step}};
}

OrderedJson tag_json(const KeyValue& tag) {
  return {{"key", tag.first}, {"value", tag.second}};
}

OrderedJson batch_json(std::string_view run_id, const Batch& batch) {
  OrderedJson json = {{"run_id", run_id}};
  for (const Metric& metric : batch.metrics) json["metrics"].push_back(metric_json(metric));
  for (const KeyValue& param : batch.params) json["params"].push_back(tag_json(param));
  for (const KeyValue& tag : batch.tags) json["tags"].push_back(tag_json(tag));
  return json;
}

bool BatchRoom::add_metric(const Metric& metric) {
  return add(num_metrics_, kMaxBatchMetrics, metric_json(metric));
}

bool BatchRoom::add_param(const KeyValue& param) {
  return add(num_params_, kMaxBatchParams, tag_json(param));
}

bool BatchRoom::add_tag(const KeyValue& tag) {
  return add(num_tags_, kMaxBatchTags, tag_json(tag));
}

bool BatchRoom::add(std::size_t& count, std::size_t limit, const OrderedJson& record) {
  if (count == limit || num_metrics_ + num_params_ + num_tags_ == kMaxBatchRecords) return false;
  // Bytes, of which a character has one or more: servers count characters, proxies bytes.
  const std::size_t size =
      record.dump(-1, ' ', false, OrderedJson::error_handler_t::replace).size() + 1;
  if (num_characters_ + size > kMaxBatchCharacters) return false;
  num_characters_ += size;
  ++count;
  return true;
}

}  // namespace wmtp::tracking::mlflow
