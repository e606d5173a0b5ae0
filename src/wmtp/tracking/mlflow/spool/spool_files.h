// The small files of a run's spool. Each appears whole or not at all.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/storage/file_system.h"
#include "wmtp/tracking/mlflow/rest/server.h"

namespace wmtp::tracking::mlflow {

// run.json. What only the server knows is empty until it was reached.
struct SpooledRun {
  std::string run_uid = {}, experiment = {}, run_name = {}, tracking_uri = {};
  std::int64_t start_ms = 0;
  std::string run_id = {}, experiment_id = {}, artifact_uri = {};
  // Of each key, the step up to which the server had it when this spool knew nothing of that: the
  // run went on from another machine, or its segments were removed after it had ended.
  std::map<std::string, std::int64_t> sent_up_to = {};
};

// end.json
struct SpooledEnd {
  RunStatus status = RunStatus::killed;
  int exit_code = 0;
  std::string reason;
  std::int64_t end_ms = 0;
  bool is_sent = false;
};

// `acked`: "120 17 44\n": the server has all records up to 120, but for the artifacts 17 and 44,
// which were passed over.
struct Acked {
  std::uint64_t seq = 0;
  std::vector<std::uint64_t> later;
};

// Writing throws storage::FileError. A file without sense reads as missing, with a warning.
class SpoolFiles {
 public:
  SpoolFiles(storage::FileSystem& files, std::filesystem::path folder);  // BORROWS files

  std::optional<SpooledRun> run() const;
  void save(const SpooledRun& run);
  std::optional<SpooledEnd> end() const;
  void save(const SpooledEnd& end);
  void remove_end();
  Acked acked() const;
  // Not waited for until it is on the disk: an older one only repeats what the server then drops.
  void save(const Acked& acked);
  // A line for rejected.jsonl, which stops growing at 4 MiB.
  void reject(const OrderedJson& line);

 private:
  enum class Sync { no, yes };
  std::string text_of(std::string_view name) const;  // "" where there is none
  std::optional<Json> json_of(std::string_view name) const;
  void replace(std::string_view name, std::string_view text, Sync sync);

  storage::FileSystem& files_;
  std::filesystem::path folder_;
};

}  // namespace wmtp::tracking::mlflow
