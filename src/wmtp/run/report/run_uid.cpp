#include "wmtp/run/report/run_uid.h"

#include "wmtp/core/checksum.h"
#include "wmtp/tracking/mlflow/spool/unfinished_run.h"

namespace wmtp::run {
namespace {

std::string choose(const config::Config& config, const std::string& saved,
                   const std::string& start_id) {
  if (!saved.empty()) return saved;
  if (config.checkpoint.resume.kind == config::ResumeFrom::Kind::automatic)
    if (const auto killed = tracking::mlflow::unfinished_run(config.mlflow.spool_dir))
      return *killed;
  return sha256_hex("run " + start_id).substr(0, 32);
}

}  // namespace

std::string agree_run_uid(const config::Config& config, const std::string& saved,
                          const std::string& start_id, comm::ProcessGroupSession& session) {
  if (config.mlflow.experiment.empty()) return saved;
  const std::string mine = session.rank() == 0 ? choose(config, saved, start_id) : "";
  return session.gather_group().gather_bytes(mine, comm::Communicator::kAllRanks, "run uid")[0];
}

}  // namespace wmtp::run
