// Rows of `checkpoint` and `storage`.
#include "wmtp/config/tables/table.h"

namespace wmtp::config {

void add_checkpoint_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(checkpoint.save_dir), "Folder of the checkpoints").host();
  add(rows, WMTP_KEY(checkpoint.save_checkpoint_every),
      "Epochs between checkpoints; whichever comes first")
      .free()
      .above(0);
  add(rows, WMTP_KEY(checkpoint.save_every_steps), "Steps between checkpoints").free().at_least(1);
  add(rows, WMTP_KEY(checkpoint.save_every_minutes), "Minutes between checkpoints").free().above(0);
  add(rows, WMTP_KEY(checkpoint.save_best), "Keep the best by best_metric").free();
  add(rows, WMTP_KEY(checkpoint.save_final), "Save at the end").free();
  add(rows, WMTP_KEY(checkpoint.save_total_limit), "Checkpoints kept; null = all")
      .free()
      .at_least(2);
  add(rows, WMTP_KEY(checkpoint.best_metric), "null = the stage's validation metric").free();
  add(rows, WMTP_KEY(checkpoint.save_lora_only),
      "Adapters and value head only; of the base the manifest holds a fingerprint, config.yaml the "
      "path")
      .free();
  add(rows, WMTP_KEY(checkpoint.async), "Write in the background").host();
  add(rows, WMTP_KEY(checkpoint.max_failed_saves), "Failed saves in a row, then exit 74")
      .free()
      .at_least(1);
  add(rows, WMTP_KEY(checkpoint.resume), "auto = the newest that verifies, if any")
      .host()
      .must_exist();
  add(rows, WMTP_KEY(checkpoint.verify), "Hash what this rank reads, or everything").host();
  add(rows, WMTP_KEY(checkpoint.allow_config_change), "Keys of class S that may differ on resume")
      .host();
  add(rows, WMTP_KEY(checkpoint.allow_data_change), "The data may differ on resume").host();
  add(rows, WMTP_KEY(checkpoint.s3_upload), "Copy each checkpoint to storage.s3, in the background")
      .free();
  add(rows, WMTP_KEY(checkpoint.upload_wait_s),
      "Seconds the end of a run waits for uploads; then exit 75, and the same command sends the "
      "rest")
      .host()
      .at_least(0);
  add(rows, WMTP_KEY(checkpoint.export_on_finish),
      "What is written to <run_dir>/final; auto = peft with use_lora, else hf")
      .free();
}

void add_storage_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(storage.s3.bucket), "Bucket; empty = no S3").host();
  add(rows, WMTP_KEY(storage.s3.prefix), "Key prefix").host();
  add(rows, WMTP_KEY(storage.s3.endpoint),
      "Endpoint URL; empty = AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile, AWS")
      .host();
  add(rows, WMTP_KEY(storage.s3.region), "Region; empty = environment or profile").host();
  add(rows, WMTP_KEY(storage.s3.profile), "Profile of the credentials file; empty = AWS_PROFILE")
      .host();
  add(rows, WMTP_KEY(storage.s3.path_style), "Bucket in the path; auto = with an endpoint").host();
  add(rows, WMTP_KEY(storage.s3.part_size_mib), "Part size of uploads").host().between(5, 5120);
  add(rows, WMTP_KEY(storage.s3.concurrency), "Parts in flight").host().between(1, 64);
  add(rows, WMTP_KEY(storage.s3.retries), "Further tries of a request that fails")
      .host()
      .between(0, 100);
  add(rows, WMTP_KEY(storage.s3.checksum), "Digest sent with each part").host();
  add(rows, WMTP_KEY(storage.s3.keep), "Checkpoints kept there; null = save_total_limit")
      .free()
      .at_least(1);
  add(rows, WMTP_KEY(storage.s3.allow_http),
      "Credentials over plain http to a host that is not this one")
      .host();
}

}  // namespace wmtp::config
