// Rows of `mlflow`, `tracking` and `logging`.
#include "wmtp/config/tables/table.h"

namespace wmtp::config {

void add_tracking_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(mlflow.tracking_uri),
      "http(s) address; empty = $MLFLOW_TRACKING_URI, else spool only")
      .host();
  add(rows, WMTP_KEY(mlflow.experiment), "MLflow experiment; empty = off").free();
  add(rows, WMTP_KEY(mlflow.run_name), "MLflow run name").free();
  add(rows, WMTP_KEY(mlflow.upload_artifacts),
      "Also send metrics.jsonl, the report, checkpoint manifests and the exported model")
      .free();
  add(rows, WMTP_KEY(mlflow.spool_dir), "What the server has not taken yet").host();
  add(rows, WMTP_KEY(tracking.jsonl), "Metrics as JSON lines").host();
  add(rows, WMTP_KEY(tracking.jsonl_path), "Their file").host();
  add(rows, WMTP_KEY(tracking.tensorboard), "Metrics, histograms and samples for TensorBoard")
      .host();
  add(rows, WMTP_KEY(tracking.tensorboard_dir), "Their folder").host();
  add(rows, WMTP_KEY(tracking.system_interval_s), "Seconds between readings of the machine")
      .host()
      .above(0);
  add(rows, WMTP_KEY(tracking.queue_points),
      "Points held in memory while the disk does not keep up; those beyond are dropped, with a "
      "warning")
      .host()
      .at_least(1);
}

void add_logging_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(logging.level),
      "Least level of stderr and the log files; -v and -q win, -q on stderr alone")
      .host()
      .per_rank();
  add(rows, WMTP_KEY(logging.format),
      "Diagnostics on stderr and in the log files; --json makes those of stderr JSON, too")
      .host()
      .per_rank();
  add(rows, WMTP_KEY(logging.dir), "Folder of the log files").host().per_rank();
  add(rows, WMTP_KEY(logging.rank_files), "train: a file per rank, rank_<R>.log or .jsonl")
      .host()
      .per_rank();
  add(rows, WMTP_KEY(logging.console_ranks),
      "Ranks that write all to stderr, the others warnings and errors; launch --tee all wins")
      .host()
      .per_rank()
      .at_least(0);
  add(rows, WMTP_KEY(logging.progress), "Progress on the console; auto = bar on a terminal")
      .host()
      .per_rank();
  add(rows, WMTP_KEY(logging.color), "Colour on the console; auto = on a terminal; --color wins")
      .host()
      .per_rank();
}

}  // namespace wmtp::config
