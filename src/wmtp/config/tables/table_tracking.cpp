// Rows of `mlflow`, `tracking` and `logging`.
#include "wmtp/config/tables/table.h"

namespace wmtp::config {

void add_tracking_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(mlflow.tracking_uri),
      "http(s) address; empty = $MLFLOW_TRACKING_URI, else spool only")
      .host()
      .later();
  add(rows, WMTP_KEY(mlflow.experiment), "MLflow experiment; empty = off").free().later();
  add(rows, WMTP_KEY(mlflow.run_name), "MLflow run name").free().later();
  add(rows, WMTP_KEY(mlflow.upload_artifacts), "Send checkpoints and reports as artifacts")
      .free()
      .later();
  add(rows, WMTP_KEY(mlflow.spool_dir), "What the server has not taken yet").host().later();
  add(rows, WMTP_KEY(tracking.jsonl), "Metrics as JSON lines").host();
  add(rows, WMTP_KEY(tracking.jsonl_path), "Their file").host();
  add(rows, WMTP_KEY(tracking.tensorboard), "Metrics for TensorBoard").host().later();
  add(rows, WMTP_KEY(tracking.tensorboard_dir), "Their folder").host().later();
  add(rows, WMTP_KEY(tracking.system_interval_s), "Seconds between readings of the machine")
      .host()
      .above(0)
      .later();
  add(rows, WMTP_KEY(tracking.queue_points), "Points held in memory; the oldest go to the spool")
      .host()
      .at_least(1)
      .later();
}

void add_logging_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(logging.level), "Least level that is written").host().own().later();
  add(rows, WMTP_KEY(logging.format), "Lines of text, or JSON").host().own().later();
  add(rows, WMTP_KEY(logging.dir), "Folder of the log files").host().own().later();
  add(rows, WMTP_KEY(logging.rank_files), "One file per rank").host().own().later();
  add(rows, WMTP_KEY(logging.console_ranks), "Ranks that write to the console")
      .host()
      .own()
      .at_least(0)
      .later();
  add(rows, WMTP_KEY(logging.progress), "Progress on the console; auto = bar on a terminal")
      .host()
      .own();
  add(rows, WMTP_KEY(logging.color), "Colour on the console; auto = on a terminal")
      .host()
      .own()
      .later();
}

}  // namespace wmtp::config
