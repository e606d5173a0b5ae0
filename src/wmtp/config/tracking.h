// Sections `mlflow`, `tracking` and `logging`. Initial values are the built-in defaults
// (text in ${} is interpolated on loading); meanings, ranges and resume classes stand in
// table_tracking.cpp.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "wmtp/config/enum_names.h"

namespace wmtp::config {

enum class LogLevel { debug, info, warn, error };
WMTP_ENUM_NAMES(LogLevel, "debug", "info", "warn", "error");
enum class LogFormat { text, json };
WMTP_ENUM_NAMES(LogFormat, "text", "json");
enum class Progress { automatic, bar, lines, off };
WMTP_ENUM_NAMES(Progress, "auto", "bar", "lines", "off");
enum class ColorChoice { automatic, always, never };
WMTP_ENUM_NAMES(ColorChoice, "auto", "always", "never");

struct Mlflow {
  std::string tracking_uri, experiment;
  std::string run_name = "${experiment.name}";
  bool upload_artifacts = false;
  std::filesystem::path spool_dir = "${runtime.run_dir}/mlflow-spool";
};

struct Tracking {
  bool jsonl = true;
  std::filesystem::path jsonl_path = "${runtime.run_dir}/metrics.jsonl";
  bool tensorboard = false;
  std::filesystem::path tensorboard_dir = "${runtime.run_dir}/tb";
  double system_interval_s = 10;
  std::int64_t queue_points = 100000;
};

struct ConsoleRanks {
  bool all = false;
  std::vector<std::int64_t> ranks{0};  // unless all
};

struct Logging {
  LogLevel level = LogLevel::info;
  LogFormat format = LogFormat::text;
  std::filesystem::path dir = "${runtime.run_dir}/logs";
  bool rank_files = true;
  ConsoleRanks console_ranks;
  Progress progress = Progress::automatic;
  ColorChoice color = ColorChoice::automatic;
};

}  // namespace wmtp::config
