// Sections `checkpoint` and `storage`. Initial values are the built-in defaults
// (text in ${} is interpolated on loading); meanings, ranges and resume classes stand in
// table_checkpoint.cpp.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/config/dataset.h"
#include "wmtp/config/enum_names.h"

namespace wmtp::config {

enum class MetricMode { min, max };
WMTP_ENUM_NAMES(MetricMode, "min", "max");
enum class VerifyLevel { read, full };
WMTP_ENUM_NAMES(VerifyLevel, "read", "full");
enum class ExportFormat { automatic, none, hf, peft };
WMTP_ENUM_NAMES(ExportFormat, "auto", "none", "hf", "peft");
enum class S3Checksum { md5, crc32c, none };
WMTP_ENUM_NAMES(S3Checksum, "md5", "crc32c", "none");

struct BestMetric {
  std::string name;
  MetricMode mode = MetricMode::min;
};

struct ResumeFrom {  // `auto`, `never`, or a checkpoint's path
  enum class Kind { automatic, never, path } kind = Kind::automatic;
  std::filesystem::path path;
};

struct Checkpoint {
  std::filesystem::path save_dir = "${runtime.run_dir}/checkpoints";
  std::optional<double> save_checkpoint_every = 1.0;
  std::optional<std::int64_t> save_every_steps;
  std::optional<double> save_every_minutes;
  bool save_best = true;
  bool save_final = true;
  std::optional<std::int64_t> save_total_limit = 3;
  std::optional<BestMetric> best_metric;
  bool save_lora_only = false;
  bool async = true;
  std::int64_t max_failed_saves = 3;
  ResumeFrom resume;
  VerifyLevel verify = VerifyLevel::read;
  std::vector<std::string> allow_config_change;
  bool allow_data_change = false;
  bool s3_upload = false;
  std::int64_t upload_wait_s = 600;
  ExportFormat export_on_finish = ExportFormat::automatic;
};

struct S3 {
  std::string bucket, prefix = "checkpoints/${experiment.name}", endpoint, region, profile;
  AutoBool path_style = AutoBool::automatic;
  std::int64_t part_size_mib = 16, concurrency = 4, retries = 8;
  S3Checksum checksum = S3Checksum::md5;
  std::optional<std::int64_t> keep;  // null: checkpoint.save_total_limit
  bool allow_http = false;
};

struct Storage {
  S3 s3;
};

}  // namespace wmtp::config
