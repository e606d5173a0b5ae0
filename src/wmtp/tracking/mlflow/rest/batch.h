// A log-batch as JSON, and what still fits into one.
#pragma once
#include <cstddef>
#include <string_view>

#include "wmtp/tracking/mlflow/rest/server.h"

namespace wmtp::tracking::mlflow {

// {"key", "value", "timestamp", "step"}; NaN and infinities are texts, as JSON has no such numbers.
OrderedJson metric_json(const Metric& metric);
OrderedJson tag_json(const KeyValue& tag);  // and params: {"key", "value"}
OrderedJson batch_json(std::string_view run_id, const Batch& batch);

// Counts records against the limits of limits.h: each call says whether one more fits, and if so
// counts it. A batch of exactly these records is taken.
class BatchRoom {
 public:
  bool add_metric(const Metric& metric);
  bool add_param(const KeyValue& param);
  bool add_tag(const KeyValue& tag);

 private:
  bool add(std::size_t& count, std::size_t limit, const OrderedJson& record);

  std::size_t num_metrics_ = 0, num_params_ = 0, num_tags_ = 0;
  std::size_t num_characters_ = 512;  // the names of the lists, and a run id of 256
};

}  // namespace wmtp::tracking::mlflow
